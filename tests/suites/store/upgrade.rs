//! Servers that are upgraded with `pg_upgrade`: which of the keys' states they keep.

use scratch_postgres::{Source, upgrade_binaries};
use tonic_idempotency::rejection::Mismatch;

use crate::prelude::*;

/// The role that the API logs in as.
const ROLE: &str = "api";

/// A server of the oldest version with the migrations, and a resource type.
struct World {
    server: Server,
    api: Config,
    types: ResourceTypes,
}

impl World {
    async fn start(old: std::path::PathBuf) -> Self {
        let server = Server::start_durable(&[Source::Binaries(old)]).await.expect("the old server");
        let mut owner = connect(&server).await;
        let mut api: Config = server.url().parse().expect("an address");
        let password = String::from_utf8(api.get_password().expect("a password").to_vec()).expect("a text");
        api.user(ROLE);
        let make = format!(
            "CREATE ROLE {ROLE} LOGIN PASSWORD '{password}';
             CREATE TABLE invoices (id uuid PRIMARY KEY DEFAULT gen_random_uuid())"
        );
        owner.batch_execute(&make).await.expect("the role and the table");
        let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "public.invoices")]);
        migrate(&mut owner, &types).await;
        Self { server, api, types }
    }

    /// A store with new connections, as a process has that starts.
    fn store(&self) -> PostgresStore {
        let pool = pool(self.api.clone(), 4, String::new());
        PostgresStore::new(pool, self.types.clone()).timeout(Duration::from_secs(30))
    }
}

async fn connect(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(server.url(), NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client
}

async fn migrate(owner: &mut Client, types: &ResourceTypes) {
    migrations::run(owner, &Schema::default()).await.expect("the migrations run");
    migrations::register(owner, &Schema::default(), types).await.expect("the registration");
    migrations::grant(owner, &Schema::default(), ROLE).await.expect("the grant");
}

fn any() -> Claim {
    Claim { resource_type: Some("invoice".to_owned()), ..new_claim() }
}

/// The rows of the table, as texts, without what a later statement may change.
async fn rows(owner: &Client) -> Vec<String> {
    let select = "SELECT k::text FROM tenant.idempotency_keys k ORDER BY k.id";
    owner.query(select, &[]).await.expect("the rows").iter().map(|row| row.get(0)).collect()
}

/// The body of the function that makes the ids of records.
async fn id_function(owner: &Client) -> String {
    let select = "SELECT pg_get_function_sqlbody('tenant.idempotency_uuidv7()'::regprocedure)";
    value(owner, select).await
}

#[tokio::test]
async fn keeps_every_record_and_every_key_in_progress() {
    let Some((old, new)) = upgrade_binaries() else {
        return skip("pg-upgrade", "IDEMPOTENCY_TEST_PG_UPGRADE is not set");
    };
    let mut world = World::start(old).await;
    let owner = connect(&world.server).await;
    let store = world.store();

    let invoice: Uuid = value(&owner, "INSERT INTO invoices DEFAULT VALUES RETURNING id").await;
    let invoice = Resource { resource_type: "invoice".to_owned(), id: invoice.into() };
    // Random bytes stay large when they are compressed, so that they are kept out of the row.
    let large: Vec<u8> = (0..8_000).flat_map(|_| Uuid::new_v4().into_bytes()).collect();
    let outcomes = [
        Completion { resource: Some(invoice.clone()), ..completion("done") },
        Completion { response: StoredResponse::message(large), ..completion("") },
        Completion { response: StoredResponse::message(""), ..completion("") },
        Completion { response: StoredResponse::NotStored, ..completion("") },
        Completion { response: StoredResponse::Error("refused".into()), ..completion("") },
    ]
    .map(|outcome| (any(), outcome));
    for (claim, outcome) in &outcomes {
        complete(&store, claim, outcome).await;
    }
    let transactional = any();
    commit(&store, &transactional, completion("committed")).await;
    let (held, lost, unknown, open) = (any(), Claim { lease: Duration::ZERO, ..any() }, any(), any());
    acquire(&store, &held).await;
    acquire(&store, &lost).await;
    acquire(&store, &unknown).await;
    store.abandon(&unknown.reservation).await.expect("the store answers");
    let transaction = open_transaction(&store, &open).await;
    let before = (rows(&owner).await, lock_id(&owner, &open).await);
    assert!(!id_function(&owner).await.contains("uuidv7()"), "the old server has no such function");

    world.server.upgrade(&new).await.expect("an upgrade");

    drop((owner, transaction));
    let mut owner = connect(&world.server).await;
    assert_eq!((rows(&owner).await, lock_id(&owner, &open).await), before);
    // At once, with the functions that the old server had; and when the migrations have run, as at the start of the service.
    for migrated in [false, true] {
        if migrated {
            migrate(&mut owner, &world.types).await;
            assert_eq!(id_function(&owner).await, "RETURN uuidv7()");
        }
        let store = world.store();
        store.verify().await.expect("the store finds all that it needs");
        for (claim, outcome) in &outcomes {
            let replay = replay_of(&store, claim).await;
            assert_eq!(replay.response, outcome.response, "migrated: {migrated}");
            assert_eq!(replay.resource, outcome.resource.as_ref().map(|resource| resource.id.clone()));
        }
        assert_eq!(replay_of(&store, &transactional).await.response, StoredResponse::message("committed"));
        let other = Claim { procedure: "/a.B/C".to_owned(), ..again(&outcomes[0].0) };
        let outcome = store.claim(&other).await.expect("the store answers");
        assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Procedure)), "{outcome:?}");

        assert_in_flight(&store, &held).await;
        let first = any();
        complete(&store, &first, &completion("new")).await;
        assert_eq!(replay_of(&store, &first).await.response, StoredResponse::message("new"));
    }

    let store = world.store();
    // The call that held its key has outlived the upgrade, and records its outcome.
    assert!(matches!(store.extend(&held.reservation, HOUR).await, Ok(ExtendOutcome::Extended)));
    record(&store, &held, "late").await;
    assert_eq!(replay_of(&store, &held).await.response, StoredResponse::message("late"));
    // Those that have left none are as abandoned as they were.
    take_over(&store, &Claim { lease: HOUR, ..again(&lost) }).await;
    assert_unknown(&store, &again(&unknown)).await;
    // The transaction that was open has left nothing, and its key is free.
    commit(&store, &again(&open), completion("committed")).await;
    assert_eq!(replay_of(&store, &open).await.response, StoredResponse::message("committed"));
    world.server.stop().await;
}

/// The number of a key's advisory lock: it depends on the secret of the database.
async fn lock_id(owner: &Client, claim: &Claim) -> i64 {
    let (user, key) = (claim.reservation.owner, claim.reservation.key);
    let parameters =
        [(user.as_uuid() as &(dyn tokio_postgres::types::ToSql + Sync), Type::UUID), (key.as_uuid(), Type::UUID)];
    owner.query_typed_one("SELECT tenant.idempotency_lock_id($1, $2)", &parameters).await.expect("a number").get(0)
}
