//! Reservations that do not wait for the disk, because the effect is in the same server.

use scratch_postgres::Source;
use tonic_idempotency::policy::EffectPolicy;

use crate::prelude::*;

/// A server that keeps flushed data when it is killed, a pool of one connection, and a store on it.
struct Durable {
    server: Server,
    pool: Pool,
    store: PostgresStore,
}

impl Durable {
    /// Starts a server; `None` if PostgreSQL is not installed.
    async fn start() -> Option<Self> {
        let server = Server::start_durable(&[Source::Installed]).await;
        let server = server.map_err(|error| skip("installed-postgres", error)).ok()?;
        let mut owner = connect(&server).await;
        migrate(&mut owner, &Schema::default()).await;
        // Asynchronous commits stay in memory for as long as possible.
        for statement in
            ["ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()", "CREATE TABLE effects (key uuid)"]
        {
            owner.batch_execute(statement).await.expect("the server is set up");
        }
        let manager = Manager::new(server.url().parse().expect("an address"), NoTls);
        let pool = Pool::builder(manager).max_size(1).build().expect("a pool");
        let store = PostgresStore::new(pool.clone(), ResourceTypes::none()).timeout(Duration::from_secs(30));
        Some(Self { server, pool, store })
    }

    async fn crash(&mut self) {
        self.server.kill().await.expect("it runs");
        self.server.restart().await.expect("it comes up");
    }

    /// Whether an operation has flushed its log records when it returns.
    async fn flushes(&self, operation: impl AsyncFnOnce()) -> bool {
        let observer = connect(&self.server).await;
        let end = observer.query_typed_one("SELECT pg_current_wal_insert_lsn()::text", &[]).await.expect("the end");
        let end: &str = end.get(0);
        operation().await;
        let look = "SELECT pg_current_wal_insert_lsn() > before, pg_current_wal_flush_lsn() > before
                    FROM CAST($1::text AS pg_lsn) before";
        let row = observer.query_typed_one(look, &[(&end, Type::TEXT)]).await.expect("the positions");
        assert!(row.get::<_, bool>(0), "nothing was written");
        row.get(1)
    }
}

async fn connect(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(server.url(), NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client
}

/// A claim with this effect policy.
fn with_effect(effect: EffectPolicy) -> Claim {
    Claim { effect, ..new_claim() }
}

/// A claim that will take over a reservation whose lease has ended.
async fn taking_over(store: &PostgresStore, effect: EffectPolicy) -> Claim {
    let lost = Claim { lease: Duration::ZERO, ..new_claim() };
    acquire(store, &lost).await;
    Claim { effect, lease: crate::record::HOUR, ..again(&lost) }
}

async fn is_reserved(store: &PostgresStore, claim: &Claim) -> bool {
    let outcome = store.claim(&again(claim)).await.expect("the store answers");
    matches!(outcome, ClaimOutcome::InFlight { .. })
}

#[tokio::test]
async fn waits_for_the_disk_unless_the_effect_is_in_the_same_server() {
    let Some(durable) = Durable::start().await else { return };
    let store = &durable.store;
    // Now and then the server flushes on its own.
    let mut spared = [0, 0];
    for _ in 0..4 {
        for effect in [EffectPolicy::Anywhere, EffectPolicy::SameServer] {
            let first = with_effect(effect);
            let second = taking_over(store, effect).await;
            let flushed = [
                durable.flushes(async || acquire(store, &first).await).await,
                durable.flushes(async || take_over(store, &second).await).await,
            ];
            if effect == EffectPolicy::Anywhere {
                assert_eq!(flushed, [true, true], "{effect:?}");
            } else {
                spared = [0, 1].map(|case| spared[case] + usize::from(!flushed[case]));
            }
            let complete = async || {
                store.complete(&first.reservation, &completion("done")).await.expect("the store answers");
            };
            let release = async || {
                store.release(&second.reservation).await.expect("the store answers");
            };
            assert!(durable.flushes(complete).await, "a completion, {effect:?}");
            assert!(durable.flushes(release).await, "a release, {effect:?}");
            let connection = durable.pool.get().await.expect("a connection");
            assert_eq!(value::<String>(&connection, "SHOW synchronous_commit").await, "on", "what is left there");
        }
    }
    assert!(spared.iter().all(|spared| *spared > 1), "claims and takeovers that were not flushed: {spared:?}");
    durable.server.stop().await;
}

/// Commits the effect on another connection, like a handler, and kills the server at once.
#[tokio::test]
async fn survives_a_crash_that_its_effect_survives() {
    let Some(mut durable) = Durable::start().await else { return };
    let mut lost = 0;
    for round in 0..3 {
        let taken_over = taking_over(&durable.store, EffectPolicy::SameServer).await;
        let handler = connect(&durable.server).await;
        let acquired = with_effect(EffectPolicy::SameServer);
        let waited = with_effect(EffectPolicy::Anywhere);
        let effectless = with_effect(EffectPolicy::SameServer);
        acquire(&durable.store, &waited).await;
        // The last reservation written before the effect is the one that has to survive.
        if round % 2 == 0 {
            acquire(&durable.store, &acquired).await;
            take_over(&durable.store, &taken_over).await;
        } else {
            take_over(&durable.store, &taken_over).await;
            acquire(&durable.store, &acquired).await;
        }
        let insert = "INSERT INTO effects VALUES ($1)";
        handler.query_typed(insert, &[(acquired.reservation.key.as_uuid(), Type::UUID)]).await.expect("an effect");
        acquire(&durable.store, &effectless).await;
        durable.crash().await;

        let count = connect(&durable.server).await.query_one("SELECT count(*) FROM effects", &[]).await;
        assert_eq!(count.expect("the effects").get::<_, i64>(0), round + 1);
        for claim in [&waited, &acquired, &taken_over] {
            assert!(is_reserved(&durable.store, claim).await, "{claim:?}");
        }
        lost += usize::from(!is_reserved(&durable.store, &effectless).await);
    }
    assert!(lost > 0, "no crash lost a reservation: the test shows nothing");
    durable.server.stop().await;
}
