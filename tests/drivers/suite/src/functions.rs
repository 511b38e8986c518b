//! Functions, which, unlike procedures, cannot end a transaction that was left open on the connection.

use std::time::Duration;

use tokio_postgres::Client;
use tonic_idempotency::{
    policy::Isolation,
    store::{
        AbandonedQuery, BeginOutcome, Claim, ClaimOutcome, Completion, Reservation, Store, StoredResponse,
        TransactionOptions, driver::Connection as _,
    },
};
use tonic_idempotency_tests::{Database, until};

use crate::{CREATE_PROJECT, Stack, all_are_back, new_claim, patient, pool, store, take, text};

/// Opens a transaction to be left behind, whose snapshot is older than everything that follows.
const LEFT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";

/// The connections of a pool.
const CONNECTIONS: usize = 2;

/// Leaves a transaction open on all connections of a pool, and waits until it is older than one of a single statement can be.
async fn leave_open<S: Stack>(pool: &S::Pool, owner: &Client) {
    let mut connections = take::<S>(pool, CONNECTIONS).await;
    for connection in &mut connections {
        connection.execute(LEFT).await.expect("a transaction");
    }
    let old = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
               AND state = 'idle in transaction' AND clock_timestamp() - xact_start > interval '100 milliseconds'";
    let count = i64::try_from(CONNECTIONS).expect("a few");
    until("the transactions are old", async || {
        owner.query_one(old, &[]).await.expect("the count").get::<_, i64>(0) == count
    })
    .await;
    drop(connections);
    all_are_back::<S>(pool).await;
}

async fn acquire(store: &impl Store, claim: &Claim) {
    let outcome = store.claim(claim).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
}

async fn complete(store: &impl Store, claim: &Claim) {
    let completion =
        Completion { response: StoredResponse::message("done"), resource: None, retention: Duration::from_secs(60) };
    store.complete(&claim.reservation, &completion).await.expect("the store answers");
}

/// A retry of the call.
fn again(claim: &Claim) -> Claim {
    Claim { reservation: Reservation::new(claim.reservation.owner, claim.reservation.key), ..claim.clone() }
}

/// Neither the snapshot nor the settings of such a transaction count: a completed call is replayed, and its user is not left on the
/// connection.
pub async fn that_look_neither_read_nor_leave_anything_in_it<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let (pool, other) = (pool::<S>(&database, CONNECTIONS), pool::<S>(&database, 1));
    let (store, other) = (patient::<S>(pool.clone()), patient::<S>(other));
    let [first, second] = [new_claim(), new_claim()];
    acquire(&store, &first).await;
    complete(&store, &first).await;
    for _ in 0..20 {
        // From here on retries are expected, and looked up together.
        let outcome = store.claim(&again(&first)).await.expect("the store answers");
        assert!(matches!(outcome, ClaimOutcome::Replay(_)), "{outcome:?}");
    }
    acquire(&other, &second).await;
    leave_open::<S>(&pool, &owner).await;
    complete(&other, &second).await;
    let outcome = store.claim(&again(&second)).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::Replay(_)), "{outcome:?}");

    all_are_back::<S>(&pool).await;
    for connection in &mut take::<S>(&pool, CONNECTIONS).await {
        let callers = "SELECT concat(current_setting('app.current_user_id', true), current_setting('idempotency.owner', true)) AS text";
        assert_eq!(text::<S>(connection, callers).await, "");
    }
}

/// A transaction that holds its key's lock looks at the key beside it.
pub async fn that_look_for_a_serializable_transaction_miss_no_record<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let (pool, other) = (pool::<S>(&database, CONNECTIONS), pool::<S>(&database, 1));
    let other = patient::<S>(other);
    let store = patient::<S>(pool.clone()).transaction_pool(self::pool::<S>(&database, 1));
    let claim = new_claim();
    leave_open::<S>(&pool, &owner).await;
    acquire(&other, &claim).await;
    complete(&other, &claim).await;
    let options = TransactionOptions { isolation: Isolation::Serializable, ..TransactionOptions::default() };
    let begun = store.begin(&again(&claim), options).await.expect("the store answers");
    assert!(matches!(begun, BeginOutcome::Refused(ClaimOutcome::Replay(_))), "{begun:?}");
}

pub async fn that_search_find_what_is_there_now<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let (pool, other) = (pool::<S>(&database, CONNECTIONS), pool::<S>(&database, 1));
    let (store, other) = (patient::<S>(pool.clone()), patient::<S>(other));
    leave_open::<S>(&pool, &owner).await;
    let abandoned = Claim { lease: Duration::ZERO, ..new_claim() };
    acquire(&other, &abandoned).await;
    let found = store.abandoned(&search()).await.expect("the store answers");
    assert_eq!(found.iter().map(|found| found.key).collect::<Vec<_>>(), [abandoned.reservation.key]);
}

/// The next search would begin beside it.
pub async fn that_search_for_too_long_are_cancelled<S: Stack>() {
    let database = Database::new().await;
    let (mut holder, owner) = (database.owner().await, database.owner().await);
    let pool = pool::<S>(&database, CONNECTIONS);
    let store = store::<S>(pool.clone()).timeout(Duration::from_secs(1));
    let held = holder.transaction().await.expect("a transaction");
    held.batch_execute("LOCK TABLE tenant.idempotency_keys").await.expect("the lock");
    let _ = store.abandoned(&search()).await.expect_err("it takes too long");
    let searches = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND state = 'active' AND query LIKE '%idempotency_abandoned%'
                      AND pid <> pg_backend_pid()";
    until("the search has ended", async || {
        owner.query_one(searches, &[]).await.expect("the count").get::<_, i64>(0) == 0
    })
    .await;
    held.rollback().await.expect("the end");
}

pub(crate) fn search() -> AbandonedQuery {
    AbandonedQuery { procedures: vec![CREATE_PROJECT.to_owned()], lookback: None, max_attempts: 10, batch: 10 }
}
