//! What operators can do: look at a key, and release it. The table's owner is no superuser here, and the operators' role has
//! no rights but those that it is granted.

use std::time::Duration;

use tokio_postgres::{Client, Row, error::SqlState, types::Type};
use tonic_idempotency::{
    Caller, IdempotencyKey, OwnerId, Scope, UserId, migrations,
    policy::KeyFormat,
    store::{
        AbandonOutcome, BeginOutcome, Claim, ClaimOutcome, CommitOutcome, CompleteOutcome, Completion, ExtendOutcome,
        PostgresStore, ReleaseOutcome, Reservation, ResourceTypes, Schema, Store, StoredResponse, TransactionOptions,
    },
};
use tonic_idempotency_tests::{API_ROLE, Database, OPERATOR, until};
use uuid::Uuid;

use crate::record::{HOUR, PROCEDURE, acquire, again, claim, complete, completion, take_over};

/// A service, and the connection of its operator.
pub(crate) struct Operated {
    pub(crate) database: Database,
    pub(crate) store: PostgresStore,
    pub(crate) operator: Client,
    /// The role that owns the table. It is not a superuser.
    pub(crate) owner: String,
    /// A superuser.
    pub(crate) superuser: Client,
}

impl Operated {
    pub(crate) async fn new() -> Self {
        Self::with(&Schema::default()).await
    }

    async fn with(schema: &Schema) -> Self {
        let database = Database::empty().await;
        let superuser = database.owner().await;
        let owner = format!("idempotency_tests_owner_{}", Uuid::new_v4().simple());
        let roles = format!(
            "CREATE ROLE {owner};
             DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {owner}', current_database()); END $$;
             GRANT CREATE ON SCHEMA public TO {owner};"
        );
        superuser.batch_execute(&roles).await.expect("the role");
        let operator = database.login(OPERATOR).await;
        let mut client = database.owner().await;
        client.batch_execute(&format!("SET ROLE {owner}")).await.expect("the owner");
        migrations::run(&mut client, schema).await.expect("the migrations");
        migrations::grant(&client, schema, API_ROLE).await.expect("the grant");
        migrations::grant_operator(&client, schema, OPERATOR).await.expect("the grant");
        let store = PostgresStore::new(database.pool_of_login(4).await, ResourceTypes::none())
            .schema(schema.clone())
            .timeout(Duration::from_secs(30));
        Self { database, store, operator, owner, superuser }
    }

    pub(crate) async fn inspect(&self, claim: &Claim) -> Row {
        let [key, user] = texts(claim);
        let inspect = "SELECT *, lease_left BETWEEN interval '59 min' AND interval '1 hour' AS lease_is_left
                       FROM tenant.idempotency_inspect($1, $2)";
        self.operator.query_typed_one(inspect, &[(&key, Type::TEXT), (&user, Type::TEXT)]).await.expect("an answer")
    }

    async fn state(&self, claim: &Claim) -> String {
        self.inspect(claim).await.get("state")
    }

    /// Releases a key, and returns the outcome and the process id.
    async fn release(&self, claim: &Claim, token: Option<Uuid>) -> (String, Option<i32>) {
        let [key, user] = texts(claim);
        let release = "SELECT * FROM tenant.idempotency_operator_release($1, $2, $3, p_reason => 'a ticket')";
        let parameters: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] =
            &[(&key, Type::TEXT), (&user, Type::TEXT), (&token, Type::UUID)];
        let row = self.operator.query_typed_one(release, parameters).await.expect("an answer");
        assert!(!row.get::<_, &str>("hint").is_empty());
        (row.get("outcome"), row.get("holder_pid"))
    }

    /// The lines of the audit, oldest first.
    async fn audit(&self) -> Vec<String> {
        let select = "SELECT concat_ws(' ', operator, action, state, outcome, reason) FROM tenant.idempotency_audit ORDER BY happened";
        self.superuser.query(select, &[]).await.expect("the audit").iter().map(|row| row.get(0)).collect()
    }

    pub(crate) async fn drop_owner(self) {
        let Self { superuser, owner, operator, store, .. } = self;
        drop((operator, store));
        let drop = format!("DROP OWNED BY {owner} CASCADE; DROP ROLE {owner}");
        superuser.batch_execute(&drop).await.expect("the role goes");
    }
}

/// The key and the user of a claim, as texts.
fn texts(claim: &Claim) -> [String; 2] {
    [*claim.reservation.key.as_uuid(), *claim.reservation.owner.as_uuid()].map(|id| id.to_string())
}

fn any() -> Claim {
    Claim { resource_type: None, ..claim(Uuid::new_v4(), Uuid::new_v4()) }
}

/// Begins the transaction of a call.
pub(crate) async fn open(store: &PostgresStore, claim: &Claim) -> Box<dyn tonic_idempotency::store::StoreTransaction> {
    match store.begin(claim, TransactionOptions::default()).await.expect("the store answers") {
        BeginOutcome::Open { transaction, .. } => transaction,
        other => panic!("expected a transaction, got {other:?}"),
    }
}

/// Every form in which a caller may write a key.
#[tokio::test]
async fn a_key_is_the_same_in_the_database_as_in_rust() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let id = "8e03978e-40d5-43dd-bc93-6894a57f9324";
    for key in [
        id,
        &id.to_uppercase(),
        &id.replace('-', ""),
        &format!("urn:uuid:{id}"),
        &format!("{{{id}}}"),
        &format!("URN:UUID:{id}"),
        &format!("{{{}}}", id.replace('-', "")),
        &id.replacen('-', "", 1),
        &format!("{id}0"),
        "order-17",
        "a",
        "{\"a\":\"b\\c\"}",
        &"x".repeat(255),
    ] {
        let expected = *IdempotencyKey::new(key, KeyFormat::Any).expect("a key").id().as_uuid();
        let row = owner.query_typed_one("SELECT tenant.idempotency_key_id($1)", &[(&key, Type::TEXT)]).await;
        assert_eq!(row.expect("an id").get::<_, Uuid>(0), expected, "{key}");
    }
}

#[tokio::test]
async fn see_each_state_as_the_layer_does() {
    let operated = Operated::new().await;
    let store = &operated.store;
    let [reserved, abandoned, unknown, completed, not_stored, failed, expired] = [(); 7].map(|()| any());
    assert_eq!(operated.state(&reserved).await, "absent");
    acquire(store, &reserved).await;
    let row = operated.inspect(&reserved).await;
    assert_eq!(row.get::<_, &str>("state"), "reserved");
    assert_eq!(row.get::<_, &str>("procedure"), PROCEDURE);
    assert_eq!(row.get::<_, Uuid>("token"), reserved.reservation.token);
    assert_eq!(row.get::<_, i32>("attempts"), 1);
    assert_eq!(row.get::<_, Uuid>("owner"), *reserved.reservation.owner.as_uuid());
    assert!(row.get::<_, bool>("lease_is_left"));

    let abandoned = Claim { lease: Duration::ZERO, ..abandoned };
    acquire(store, &abandoned).await;
    acquire(store, &unknown).await;
    let outcome = store.abandon(&unknown.reservation).await.expect("the store answers");
    assert_eq!(outcome, AbandonOutcome::Abandoned);
    complete(store, &completed, &completion("done")).await;
    complete(store, &not_stored, &Completion { response: StoredResponse::NotStored, ..completion("") }).await;
    complete(store, &failed, &Completion { response: StoredResponse::Error("e".into()), ..completion("") }).await;
    complete(store, &expired, &Completion { retention: Duration::ZERO, ..completion("done") }).await;
    for (claim, state) in [
        (&abandoned, "abandoned"),
        (&unknown, "unknown"),
        (&completed, "completed"),
        (&not_stored, "not_stored"),
        (&failed, "failed"),
        (&expired, "absent"),
    ] {
        assert_eq!(operated.state(claim).await, state);
    }
    let absent = operated.inspect(&expired).await;
    assert_eq!(absent.get::<_, Option<&str>>("procedure"), None);
    operated.drop_owner().await;
}

/// Of all users, and only what is stuck: neither what has an outcome nor what is running.
#[tokio::test]
async fn find_the_keys_that_are_stuck_without_knowing_whose_they_are() {
    let operated = Operated::new().await;
    let store = &operated.store;
    let [abandoned, unknown, reserved, completed, expired, old] = [(); 6].map(|()| any());
    let [abandoned, expired, old] = [abandoned, expired, old].map(|claim| Claim { lease: Duration::ZERO, ..claim });
    for claim in [&abandoned, &unknown, &reserved, &Claim { retention: Duration::ZERO, ..expired }, &old] {
        acquire(store, claim).await;
    }
    store.abandon(&unknown.reservation).await.expect("the store answers");
    complete(store, &completed, &completion("done")).await;
    // A UUIDv7 of long ago.
    let age =
        "UPDATE tenant.idempotency_keys SET id = '00000000-0000-7000-8000-000000000001' WHERE idempotency_key = $1";
    operated.superuser.query_typed(age, &[(old.reservation.key.as_uuid(), Type::UUID)]).await.expect("time");

    let found = async |arguments: &str| {
        let stuck = format!("SELECT * FROM tenant.idempotency_stuck({arguments})");
        let rows = operated.operator.query(&stuck, &[]).await.expect("an answer");
        rows.iter().map(|row| (row.get("state"), row.get("token"))).collect::<Vec<(String, Uuid)>>()
    };
    let line = |state: &str, claim: &Claim| (state.to_owned(), claim.reservation.token);
    let recent = [line("abandoned", &abandoned), line("unknown", &unknown)];
    assert_eq!(found("").await, recent);
    assert_eq!(found("NULL").await, [&[line("abandoned", &old)], &recent[..]].concat());
    assert_eq!(found("p_limit => 1").await, recent[..1]);

    // What it returns is what the other two functions take.
    let release = "SELECT r.outcome FROM tenant.idempotency_stuck() s,
                   tenant.idempotency_operator_release(s.key_id::text, s.owner::text, s.token) r";
    let released = operated.operator.query(release, &[]).await.expect("an answer");
    assert!(released.iter().all(|row| row.get::<_, &str>(0) == "released") && released.len() == 2);
    assert_eq!(found("").await, []);
    operated.drop_owner().await;
}

/// The transaction is shown with its connection, and its record once it is committed.
#[tokio::test]
async fn see_the_connection_whose_transaction_holds_a_key_and_do_not_release_it() {
    let operated = Operated::new().await;
    let running = any();
    let transaction = open(&operated.store, &running).await;
    let row = operated.inspect(&running).await;
    assert_eq!(row.get::<_, &str>("state"), "running");
    let pid: i32 = row.get("holder_pid");
    let activity = "SELECT usename::text FROM pg_stat_activity WHERE pid = $1 AND state = 'idle in transaction'";
    let user = operated.superuser.query_typed_one(activity, &[(&pid, Type::INT4)]).await.expect("the connection");
    assert_eq!(user.get::<_, &str>(0), tonic_idempotency_tests::API_LOGIN);
    assert!(row.get::<_, Option<&str>>("holder_application").is_some());
    let since = "SELECT holder_since IS NOT NULL FROM tenant.idempotency_inspect($1, $2)";
    let [key, user] = texts(&running);
    let sees_since = async || {
        let parameters: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] =
            &[(&key, Type::TEXT), (&user, Type::TEXT)];
        operated.operator.query_typed_one(since, parameters).await.expect("an answer").get::<_, bool>(0)
    };
    assert!(!sees_since().await, "the table's owner has no right to see it");
    let grant = format!("GRANT pg_read_all_stats TO {}", operated.owner);
    operated.superuser.batch_execute(&grant).await.expect("the grant");
    assert!(sees_since().await);

    for token in [Some(running.reservation.token), Some(Uuid::new_v4()), None] {
        assert_eq!(operated.release(&running, token).await, ("running".to_owned(), Some(pid)));
    }
    let committed = transaction.commit(Some(completion("done"))).await.expect("the store answers");
    assert_eq!(committed, CommitOutcome::Committed, "nothing has disturbed it");
    assert_eq!(operated.state(&running).await, "completed");

    // One that takes a reservation over, which stays as it is.
    let left = Claim { lease: Duration::ZERO, ..any() };
    acquire(&operated.store, &left).await;
    let transaction = open(&operated.store, &again(&left)).await;
    assert_eq!(operated.state(&left).await, "running");
    assert_eq!(operated.release(&left, Some(left.reservation.token)).await.0, "running");
    transaction.roll_back().await;
    until("it has ended", async || operated.state(&left).await == "abandoned").await;
    assert_eq!(operated.release(&left, Some(left.reservation.token)).await, ("released".to_owned(), None));
    operated.drop_owner().await;
}

#[tokio::test]
async fn release_a_key_so_that_the_call_that_still_runs_cannot_record() {
    let operated = Operated::new().await;
    let store = &operated.store;
    let unknown = any();
    acquire(store, &unknown).await;
    store.abandon(&unknown.reservation).await.expect("the store answers");
    let first = Claim { lease: Duration::ZERO, ..any() };
    acquire(store, &first).await;
    let taken_over = Claim { lease: HOUR, ..again(&first) };
    take_over(store, &taken_over).await;
    let reserved = any();
    acquire(store, &reserved).await;

    for stuck in [&unknown, &taken_over, &reserved] {
        let Reservation { token, .. } = stuck.reservation;
        assert_eq!(operated.release(stuck, Some(token)).await.0, "released");
        assert_eq!(operated.release(stuck, Some(token)).await.0, "absent");
        let next = again(stuck);
        for claimed in [false, true] {
            let completed = store.complete(&stuck.reservation, &completion("late")).await.expect("the store answers");
            assert_eq!(completed, CompleteOutcome::Fenced, "claimed again: {claimed}");
            let extended = store.extend(&stuck.reservation, HOUR).await.expect("the store answers");
            assert_eq!(extended, ExtendOutcome::NotHeld, "claimed again: {claimed}");
            let released = store.release(&stuck.reservation).await.expect("the store answers");
            assert_eq!(released, ReleaseOutcome::NotHeld, "claimed again: {claimed}");
            if !claimed {
                acquire(store, &next).await;
            }
        }
        let completed = store.complete(&next.reservation, &completion("done")).await.expect("the store answers");
        assert_eq!(completed, CompleteOutcome::Completed);
    }
    operated.drop_owner().await;
}

#[tokio::test]
async fn do_not_release_an_outcome_nor_the_reservation_of_another_call() {
    let operated = Operated::new().await;
    let store = &operated.store;
    let [held, other] = [(); 2].map(|()| any());
    acquire(store, &held).await;
    acquire(store, &other).await;
    for token in [None, Some(Uuid::new_v4()), Some(other.reservation.token)] {
        assert_eq!(operated.release(&held, token).await, ("other_token".to_owned(), None));
    }
    let responses = [StoredResponse::message("done"), StoredResponse::NotStored, StoredResponse::Error("e".into())];
    for (response, outcome) in responses.into_iter().zip(["completed", "not_stored", "failed"]) {
        let ended = any();
        complete(store, &ended, &Completion { response: response.clone(), ..completion("") }).await;
        for token in [Some(ended.reservation.token), None] {
            assert_eq!(operated.release(&ended, token).await, (outcome.to_owned(), None));
        }
        match store.claim(&again(&ended)).await.expect("the store answers") {
            ClaimOutcome::Replay(replay) => assert_eq!(replay.response, response),
            other => panic!("expected a replay, got {other:?}"),
        }
    }
    let completed = store.complete(&held.reservation, &completion("done")).await.expect("the store answers");
    assert_eq!(completed, CompleteOutcome::Completed);
    assert_eq!(operated.release(&any(), None).await, ("absent".to_owned(), None));
    operated.drop_owner().await;
}

/// A replay holds the lock of its key for a moment, too.
#[tokio::test]
async fn see_an_outcome_while_a_replay_looks_at_it() {
    let mut operated = Operated::new().await;
    let ended = any();
    complete(&operated.store, &ended, &completion("done")).await;
    let mut looking = operated.database.owner().await;
    let looking = looking.transaction().await.expect("a transaction");
    let [key, user] = texts(&ended);
    let lock = format!("SELECT pg_advisory_xact_lock(tenant.idempotency_lock_id('{user}', '{key}'))");
    looking.batch_execute(&lock).await.expect("the lock");
    let row = operated.inspect(&ended).await;
    assert_eq!((row.get("state"), row.get("holder_pid")), ("completed", None::<i32>));
    assert_eq!(operated.release(&ended, Some(ended.reservation.token)).await, ("completed".to_owned(), None));
    drop(looking);
    // An operator's own lock is nobody else's.
    let held = any();
    acquire(&operated.store, &held).await;
    let [key, user] = texts(&held);
    let token = held.reservation.token;
    let transaction = operated.operator.transaction().await.expect("a transaction");
    let release = format!("SELECT tenant.idempotency_operator_release('{key}', '{user}', '{token}')");
    transaction.batch_execute(&release).await.expect("a release");
    let inspect = format!("SELECT state FROM tenant.idempotency_inspect('{key}', '{user}')");
    let state: String = transaction.query_one(&inspect, &[]).await.expect("an answer").get(0);
    assert_eq!(state, "absent");
    drop(transaction);
    operated.drop_owner().await;
}

/// It has no token, and no lease that an operator could see.
#[tokio::test]
async fn release_a_reservation_of_the_go_interceptor_without_a_token() {
    let operated = Operated::new().await;
    let foreign = any();
    let [key, user] = texts(&foreign);
    let insert = format!(
        "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
         VALUES ('{key}', '{user}', '/a.B/C', '', now() + interval '1 hour')"
    );
    operated.superuser.batch_execute(&insert).await.expect("a reservation");
    let row = operated.inspect(&foreign).await;
    assert_eq!((row.get("state"), row.get("token")), ("reserved", None::<Uuid>));
    assert_eq!(row.get::<_, Option<bool>>("lease_is_left"), None);
    assert_eq!(operated.release(&foreign, Some(Uuid::new_v4())).await.0, "other_token");
    assert_eq!(operated.release(&foreign, None).await.0, "released");
    acquire(&operated.store, &foreign).await;
    operated.drop_owner().await;
}

#[tokio::test]
async fn find_a_key_by_the_texts_of_the_key_the_user_and_the_scope() {
    let operated = Operated::new().await;
    let caller = |user: &str, scope: Option<&str>| {
        let caller = Caller::new(UserId::from_text(user).expect("a user"));
        let scope = scope.map(|scope| Scope::from_text(scope).expect("a scope"));
        scope.map_or(caller.clone(), |scope| caller.in_scope(scope)).owner()
    };
    let key = *IdempotencyKey::new("order-17", KeyFormat::Any).expect("a key").id().as_uuid();
    let owners: [OwnerId; 2] = [caller("auth0|x", Some("acme")), caller("auth0|x", None)];
    let [scoped, unscoped] = owners.map(|owner| Claim { resource_type: None, ..claim(*owner.as_uuid(), key) });
    acquire(&operated.store, &scoped).await;
    acquire(&operated.store, &unscoped).await;
    for (arguments, claim) in [("'order-17', 'auth0|x', 'acme'", &scoped), ("'order-17', 'auth0|x'", &unscoped)] {
        let inspect = format!("SELECT token FROM tenant.idempotency_inspect({arguments})");
        let token: Uuid = operated.operator.query_one(&inspect, &[]).await.expect("an answer").get(0);
        assert_eq!(token, claim.reservation.token, "{arguments}");
    }
    for (arguments, outcome) in [
        ("'order-17', 'auth0|x', '{token}', 'globex'", "absent"),
        ("'order-18', 'auth0|x', '{token}', 'acme'", "absent"),
        ("'order-17', 'auth0|x', '{token}'", "other_token"),
        ("'order-17', 'auth0|x', '{token}', 'acme'", "released"),
    ] {
        let arguments = arguments.replace("{token}", &scoped.reservation.token.to_string());
        let release = format!("SELECT outcome FROM tenant.idempotency_operator_release({arguments})");
        let found: String = operated.operator.query_one(&release, &[]).await.expect("an answer").get(0);
        assert_eq!(found, outcome, "{arguments}");
    }
    for nothing in ["NULL, 'auth0|x'", "'order-17', NULL"] {
        let inspect = format!("SELECT tenant.idempotency_inspect({nothing})");
        let error = operated.operator.query_one(&inspect, &[]).await.expect_err("nothing is named");
        assert_eq!(error.code(), Some(&SqlState::NULL_VALUE_NOT_ALLOWED));
    }
    operated.drop_owner().await;
}

#[tokio::test]
async fn are_audited_with_their_names_also_when_nothing_is_released() {
    let operated = Operated::new().await;
    let held = any();
    acquire(&operated.store, &held).await;
    operated.inspect(&held).await;
    operated.release(&held, None).await;
    operated.release(&held, Some(held.reservation.token)).await;
    operated.release(&held, Some(held.reservation.token)).await;
    let lines = ["inspect reserved", "release reserved other_token a ticket", "release reserved released a ticket"];
    let expected = lines.iter().chain(&["release absent absent a ticket"]).map(|line| format!("{OPERATOR} {line}"));
    assert_eq!(operated.audit().await, expected.collect::<Vec<_>>());
    let of_key = "SELECT count(*) FROM tenant.idempotency_audit
                  WHERE idempotency_key = $1 AND user_id = $2 AND (token = $3 OR state <> 'released' AND action = 'release')";
    let Reservation { owner, key, token } = held.reservation;
    let parameters: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] =
        &[(key.as_uuid(), Type::UUID), (owner.as_uuid(), Type::UUID), (&token, Type::UUID)];
    let found: i64 = operated.superuser.query_typed_one(of_key, parameters).await.expect("the count").get(0);
    assert_eq!(found, 4);
    operated.drop_owner().await;
}

/// Whoever may look at a key may do nothing else: neither read a table, nor write the audit, nor claim or sweep.
#[tokio::test]
async fn have_no_other_right() {
    let operated = Operated::new().await;
    for statement in [
        "SELECT FROM tenant.idempotency_keys",
        "DELETE FROM tenant.idempotency_keys",
        "SELECT FROM tenant.idempotency_audit",
        "DELETE FROM tenant.idempotency_audit",
        "UPDATE tenant.idempotency_audit SET reason = ''",
        "INSERT INTO tenant.idempotency_audit (action, idempotency_key, user_id, state)
         VALUES ('inspect', gen_random_uuid(), gen_random_uuid(), '')",
        "SELECT tenant.idempotency_seed()",
        "CALL tenant.idempotency_sweep(1, NULL)",
        "SELECT tenant.idempotency_grant_operator('public')",
        "CALL tenant.idempotency_release(gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), NULL)",
    ] {
        let error = operated.operator.batch_execute(statement).await.expect_err(statement);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{statement}");
    }
    let granted = "SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'tenant'::regnamespace
                   AND has_function_privilege($1, p.oid, 'EXECUTE') ORDER BY 1";
    let granted = operated.superuser.query_typed(granted, &[(&OPERATOR, Type::TEXT)]).await.expect("the catalogue");
    let granted: Vec<&str> = granted.iter().map(|row| row.get(0)).collect();
    assert_eq!(granted, ["idempotency_inspect", "idempotency_operator_release", "idempotency_stuck"]);

    // And nobody else has theirs: not the API's role either.
    let api = operated.database.api().await;
    for statement in [
        "SELECT tenant.idempotency_inspect('a', 'b')",
        "SELECT tenant.idempotency_operator_release('a', 'b', NULL)",
        "SELECT tenant.idempotency_stuck()",
        "SELECT FROM tenant.idempotency_audit",
    ] {
        let error = api.batch_execute(statement).await.expect_err(statement);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{statement}");
    }
    operated.drop_owner().await;
}

/// What an operator looks at stays where it was looked at.
#[tokio::test]
async fn leave_the_settings_of_their_transaction_as_they_were() {
    let mut operated = Operated::new().await;
    let held = any();
    acquire(&operated.store, &held).await;
    let [key, user] = texts(&held);
    let transaction = operated.operator.transaction().await.expect("a transaction");
    transaction
        .batch_execute(&format!(
            "SET LOCAL idempotency.owner = 'mine'; SET LOCAL app.current_user_id = 'too';
             SELECT tenant.idempotency_stuck();
             SELECT tenant.idempotency_inspect('{key}', '{user}');
             SELECT tenant.idempotency_operator_release('{key}', '{user}', NULL);"
        ))
        .await
        .expect("the operator's functions");
    let settings = "SELECT concat(current_setting('idempotency.owner'), ' ', current_setting('app.current_user_id'),
                                  current_setting('app.idempotency_sight', true))";
    let left: String = transaction.query_one(settings, &[]).await.expect("the settings").get(0);
    assert_eq!(left, "mine too");
    drop(transaction);
    operated.drop_owner().await;
}

#[tokio::test]
async fn are_granted_by_many_at_once_and_again_without_a_change() {
    let operated = Operated::new().await;
    let role = format!("idempotency_tests_{}", Uuid::new_v4().simple());
    operated.superuser.batch_execute(&format!("CREATE ROLE {role}")).await.expect("the role");
    let mut servers = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (client, role) = (operated.database.owner().await, role.clone());
        servers.spawn(async move { migrations::grant_operator(&client, &Schema::default(), &role).await });
    }
    for granted in servers.join_all().await {
        granted.expect("the grant");
    }
    let mut locking = operated.database.owner().await;
    let locks = locking.transaction().await.expect("a transaction");
    locks.batch_execute("LOCK TABLE tenant.idempotency_resource_types IN SHARE ROW EXCLUSIVE MODE").await.expect("it");
    operated.superuser.batch_execute("SET lock_timeout = '1s'").await.expect("the setting");
    migrations::grant_operator(&operated.superuser, &Schema::default(), &role).await.expect("nothing is locked");
    drop(locks);
    let drop = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    operated.superuser.batch_execute(&drop).await.expect("the role goes");
    operated.drop_owner().await;
}

#[tokio::test]
async fn have_the_functions_of_any_schema() {
    let schema = Schema::new("My-Billing").and_then(|schema| schema.table("Operations")).expect("names");
    let operated = Operated::with(&schema).await;
    let held = any();
    acquire(&operated.store, &held).await;
    let [key, user] = texts(&held);
    let token = held.reservation.token;
    let release =
        format!(r#"SELECT outcome FROM "My-Billing".idempotency_operator_release('{key}', '{user}', '{token}')"#);
    let outcome: String = operated.operator.query_one(&release, &[]).await.expect("an answer").get(0);
    assert_eq!(outcome, "released");
    operated.drop_owner().await;
}
