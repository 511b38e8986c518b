//! The sweep, on the API's own role.

use std::sync::atomic::AtomicU32;

use tokio::time::{Instant, sleep};
use tonic_idempotency::{
    maintenance::Sweeper,
    store::{AbandonOutcome, AbandonedKey, MemoryStore},
};

use crate::prelude::*;

async fn rows(owner: &Client) -> i64 {
    count(owner, "tenant.idempotency_keys").await
}

/// Adds `expired` expired records, each of another user and every second completed, and four that have not expired.
async fn fill(database: &Database, expired: u32) {
    let store = database.store();
    for number in 0..expired {
        let claim = new_claim();
        if number % 2 == 0 {
            complete(&store, &claim, &completion("gone")).await;
        } else {
            acquire(&store, &claim).await;
        }
    }
    let owner = database.owner().await;
    execute(&owner, "UPDATE tenant.idempotency_keys SET expires = now() - interval '1 second'").await;
    for _ in 0..2 {
        complete(&store, &new_claim(), &completion("stays")).await;
        acquire(&store, &new_claim()).await;
    }
}

/// Adds rows of as many users, which have expired one second after the other.
async fn expire(owner: &Client, rows: u32) {
    let insert = format!(
        "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
         SELECT gen_random_uuid(), gen_random_uuid(), '/a/b', '', now() - number * interval '1 second'
         FROM generate_series(1, {rows}) number;
         ANALYZE tenant.idempotency_keys"
    );
    owner.batch_execute(&insert).await.expect("many rows");
}

/// Adds ten rows of one user, which have expired one hour after the other.
async fn expire_hourly(owner: &Client) {
    let sql = "
        INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
        SELECT gen_random_uuid(), '00000000-0000-7000-8000-000000000001', '/a/b', '', now() - number * interval '1 hour'
        FROM generate_series(1, 10) number";
    execute(owner, sql).await;
}

/// The trap in the Go interceptor's cleanup: PostgreSQL applies the SELECT policies, too, to a DELETE that has a WHERE.
#[tokio::test]
async fn the_go_interceptors_statement_deletes_nothing() {
    let database = Database::new().await;
    fill(&database, 10).await;
    let deleted = database.api().await.execute("DELETE FROM tenant.idempotency_keys WHERE expires < now()", &[]).await;
    assert_eq!(deleted.expect("the statement"), 0);
}

/// The settings that switch on the sight of the sweep and of the recovery count only for the owner, and only inside of
/// their functions.
#[tokio::test]
async fn its_sight_cannot_be_switched_on_by_the_apis_role() {
    let database = Database::new().await;
    fill(&database, 10).await;
    let abandoned = Claim { lease: Duration::ZERO, ..new_claim() };
    acquire(&database.store(), &abandoned).await;
    let api = database.api().await;
    let user = Uuid::new_v4();
    api.batch_execute(&format!("SET app.current_user_id = '{user}'")).await.expect("the user");
    for setting in ["sight = 'sweep'", "sight = 'recovery'", "sweep = 'on'", "recovery = 'on'"] {
        api.batch_execute(&format!("SET app.idempotency_{setting}")).await.expect("the setting");
        assert_eq!(rows(&api).await, 0, "{setting}");
        for statement in [
            format!("UPDATE tenant.idempotency_keys SET user_id = '{user}', expires = now() + interval '1 day'"),
            "DELETE FROM tenant.idempotency_keys".to_owned(),
        ] {
            assert_eq!(api.execute(&statement, &[]).await.expect("the statement"), 0, "{setting}: {statement}");
        }
    }
    assert_eq!(rows(&database.owner().await).await, 15);
}

/// A look-back that begins before 1970 has no limit, however long it is.
#[tokio::test]
async fn a_recovery_may_look_back_as_far_as_it_likes() {
    let database = Database::new().await;
    let postgres = database.store();
    let memory = MemoryStore::new();
    let abandoned = Claim { lease: Duration::ZERO, ..new_claim() };
    acquire(&postgres, &abandoned).await;
    acquire(&memory, &abandoned).await;
    for lookback in [None, Some(Duration::from_secs(100 * 365 * 24 * 3600)), Some(Duration::MAX)] {
        let found = postgres.abandoned(&AbandonedQuery { lookback, ..search() }).await.expect("the store answers");
        assert_eq!(
            found,
            memory.abandoned(&AbandonedQuery { lookback, ..search() }).await.expect("the store answers"),
            "{lookback:?}"
        );
        assert_eq!(found.len(), 1, "{lookback:?}");
    }
    let none = postgres
        .abandoned(&AbandonedQuery { lookback: Some(Duration::ZERO), ..search() })
        .await
        .expect("the store answers");
    assert_eq!(none.len(), 0, "it was reserved before");
}

#[tokio::test]
async fn does_not_read_rows_that_have_not_expired() {
    let (database, owner) = Database::with_owner().await;
    let sql = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
             SELECT gen_random_uuid(), gen_random_uuid(), '/a/b', '', now() + interval '1 hour'
             FROM generate_series(1, 5000);
             ANALYZE tenant.idempotency_keys";
    execute(&owner, sql).await;
    let api = database.api().await;
    // In one transaction: `rows_read` counts the rows of the current one.
    api.batch_execute("BEGIN").await.expect("a transaction");
    let before = rows_read(&api, "tenant.idempotency_keys").await;
    api.execute("SELECT FROM tenant.idempotency_sweep_rows(100)", &[]).await.expect("the sweep");
    let read = rows_read(&api, "tenant.idempotency_keys").await - before;
    assert!(read < 100, "{read} rows read, and none has expired");
}

/// A planner that is free to choose would read and sort all expired rows, again for each batch.
#[tokio::test]
async fn reads_no_more_than_it_deletes() {
    let (database, owner) = Database::with_owner().await;
    expire(&owner, 2_0000).await;
    let api = database.api().await;
    api.batch_execute("BEGIN").await.expect("a transaction");
    let before = rows_read(&api, "tenant.idempotency_keys").await;
    assert_eq!(value::<i64>(&api, "SELECT deleted FROM tenant.idempotency_sweep_rows(100)").await, 100);
    let read = rows_read(&api, "tenant.idempotency_keys").await - before;
    assert!(read < 1000, "{read} rows read to delete 100");
}

/// Pages that the sweep evicts from the cache are flushed to the disk at once. If the system kept them, commits would wait for them later.
#[tokio::test]
async fn lets_the_server_write_its_pages_to_the_disk_at_once() {
    let database = Database::new().await;
    fill(&database, 4).await;
    let owner = database.owner().await;
    let sql = "CREATE TABLE public.seen (setting text);
             CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 INSERT INTO public.seen VALUES (current_setting('backend_flush_after'));
                 RETURN OLD;
             END $$;
             CREATE TRIGGER see BEFORE DELETE ON tenant.idempotency_keys FOR EACH ROW EXECUTE FUNCTION public.see()";
    execute(&owner, sql).await;
    let api = database.api().await;
    api.execute("SELECT FROM tenant.idempotency_sweep_rows(100)", &[]).await.expect("the sweep");
    assert_eq!(values::<String>(&owner, "SELECT setting FROM public.seen").await, ["512kB"; 4]);
    assert_eq!(value::<String>(&api, "SHOW backend_flush_after").await, "0", "it is the sweep's own");
}

/// The index entries of deleted rows stay until a vacuum removes them, and nothing marks them as dead while an old transaction could see the
/// rows. If each batch passed over those of all batches before it, these would read 127,500.
#[tokio::test]
async fn a_batch_does_not_pass_over_what_earlier_ones_have_deleted() {
    const READ: &str = "
        SELECT sum(pg_stat_get_tuples_deleted(t))::int8,
               sum((SELECT sum(pg_stat_get_tuples_returned(i.indexrelid)) FROM pg_index i WHERE i.indrelid = t))::int8
        FROM (SELECT 'tenant.idempotency_keys'::regclass UNION
              SELECT inhrelid FROM pg_inherits WHERE inhparent = 'tenant.idempotency_keys'::regclass) r (t)";
    let (database, owner) = Database::with_owner().await;
    expire(&owner, 5_000).await;
    let old = database.owner().await;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1")
        .await
        .expect("a snapshot");

    let sweeper = Sweeper::new(PostgresStore::new(database.pool(1), ResourceTypes::none())).batch(100).rest(0.0);
    assert_eq!(sweeper.sweep().await.expect("the sweep"), 5000);
    // The statistics are there when the connection has ended.
    drop(sweeper);
    until("the statistics are there", async || {
        let deleted: i64 = value(&owner, READ).await;
        deleted == 5000
    })
    .await;
    let read: i64 = owner.query_one(READ, &[]).await.expect("the statistics").get(1);
    assert!((5_000..40_000).contains(&read), "{read} index entries read to delete 5,000 rows");
}

/// Rows that are locked when the sweep passes them, or that expire behind it, are deleted before the sweep ends.
#[tokio::test]
async fn ends_when_nothing_is_left_behind_it() {
    let (database, mut owner) = Database::with_owner().await;
    expire_hourly(&owner).await;
    let store = database.store();
    let locking = owner.transaction().await.expect("a transaction");
    let oldest = "SELECT FROM tenant.idempotency_keys WHERE expires < now() - interval '590 minutes' FOR UPDATE";
    assert_eq!(locking.execute(oldest, &[]).await.expect("the lock"), 1);
    assert_eq!(store.sweep(3).await.expect("the sweep"), 3);
    locking.commit().await.expect("the end of the lock");
    let behind = "UPDATE tenant.idempotency_keys SET expires = now() - interval '11 hours'
                  WHERE expires > now() - interval '90 minutes'";
    assert_eq!(owner.execute(behind, &[]).await.expect("a row expires"), 1);

    assert_eq!(store.sweep(3).await.expect("the sweep"), 3);
    assert_eq!(store.sweep(3).await.expect("the sweep"), 3);
    assert_eq!(store.sweep(3).await.expect("the sweep"), 1, "{} rows are left", rows(&owner).await);
    assert_eq!(rows(&owner).await, 0);
}

#[tokio::test]
async fn deletes_the_longest_expired_rows_first() {
    let (database, owner) = Database::with_owner().await;
    expire_hourly(&owner).await;
    assert_eq!(database.store().sweep(7).await.expect("the sweep"), 7);
    let left = "SELECT array_agg(extract(hour FROM now() - expires)::int4 ORDER BY expires DESC)
                FROM tenant.idempotency_keys WHERE expires <= now()";
    let left: Vec<i32> = value(&owner, left).await;
    assert_eq!(left, [1, 2, 3]);
}

#[tokio::test]
async fn sweeps_at_each_interval_until_stopped() {
    let database = Database::new().await;
    fill(&database, 10).await;
    let owner = database.owner().await;
    let sweeping = Sweeper::new(database.store()).interval(Duration::from_millis(10)).batch(4).spawn();
    until("the expired rows go", async || rows(&owner).await == 4).await;

    sweeping.stop().await;
    let expired = new_claim();
    complete(&database.store(), &expired, &Completion { retention: Duration::ZERO, ..completion("stays") }).await;
    assert_eq!(rows(&owner).await, 5);
    acquire(&database.store(), &new_claim()).await;
    assert_eq!(rows(&owner).await, 6);
}

/// A store whose sweeps take 100 ms each and find `batches` full batches.
struct Slow {
    store: MemoryStore,
    batches: AtomicU32,
}

/// Asserts a duration with a tolerance: timers count whole milliseconds.
fn assert_about(took: Duration, milliseconds: u64) {
    let expected = Duration::from_millis(milliseconds);
    assert!(took.abs_diff(expected) <= Duration::from_millis(5), "{took:?} instead of {expected:?}");
}

/// As the default for NaN, and at most a thousandfold.
#[tokio::test(start_paused = true)]
async fn rests_for_a_multiple_of_the_time_that_a_batch_took() {
    for (rest, rested) in [
        (None, 400),
        (Some(4.0), 800),
        (Some(0.0), 0),
        (Some(-1.0), 0),
        (Some(f64::NAN), 400),
        (Some(f64::INFINITY), 200_000),
    ] {
        // Two full batches and an empty last one.
        let sweeper = Sweeper::new(Slow { store: MemoryStore::new(), batches: AtomicU32::new(2) });
        let started = Instant::now();
        let sweeper = rest.into_iter().fold(sweeper, Sweeper::rest);
        assert_eq!(sweeper.sweep().await.expect("the sweep"), 500);
        assert_about(started.elapsed(), 300 + rested);
    }
}

#[tokio::test(start_paused = true)]
async fn stops_while_it_rests() {
    let slow = Slow { store: MemoryStore::new(), batches: AtomicU32::new(2) };
    let sweeping = Sweeper::new(slow).rest(1000.0).spawn();
    sleep(Duration::from_secs(1)).await;
    let started = Instant::now();
    sweeping.stop().await;
    assert_about(started.elapsed(), 0);
}

impl Store for Slow {
    async fn sweep(&self, batch: u32) -> Result<u64, StoreError> {
        sleep(Duration::from_millis(100)).await;
        let full = self.batches.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        Ok(if full { u64::from(batch) } else { 0 })
    }

    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        self.store.claim(claim).await
    }

    async fn extend(&self, reservation: &Reservation, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        self.store.extend(reservation, lease).await
    }

    async fn complete(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        self.store.complete(reservation, completion).await
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        self.store.release(reservation).await
    }

    async fn abandon(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        self.store.abandon(reservation).await
    }

    async fn abandoned(&self, query: &AbandonedQuery) -> Result<Vec<AbandonedKey>, StoreError> {
        self.store.abandoned(query).await
    }

    async fn status(&self, session: &CallSession, resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        self.store.status(session, resource).await
    }
}
