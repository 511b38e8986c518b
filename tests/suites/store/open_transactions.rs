//! Connections that come out of the pool with a transaction that was left open: the store does nothing in it.

use crate::prelude::*;

/// Transactions that a caller may leave on a connection: with and without a snapshot, failed, and with another isolation level.
const LEFT: [&str; 4] =
    ["BEGIN", "BEGIN; SELECT 1", "BEGIN; SELECT 1/0", "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"];

/// Leaves a transaction open on all connections of a pool of two, and gives them back.
async fn leave_open(pool: &Pool, left: &str) {
    let connections = [pool.get().await.expect("a connection"), pool.get().await.expect("a connection")];
    for connection in &connections {
        // A failed statement leaves a failed transaction.
        let _ = connection.batch_execute(left).await;
    }
}

/// Waits until no transaction is left open on the pool's connections.
async fn all_have_ended(owner: &Client) {
    let open = "pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    until("the left transactions end", async || count(owner, open).await == 0).await;
}

async fn does_every_operation(store: &PostgresStore, pool: &Pool, owner: &Client, left: &str) {
    let [done, released, abandoned] = [(); 3].map(|()| new_claim());
    for claim in [&done, &released, &abandoned] {
        leave_open(pool, left).await;
        acquire(store, claim).await;
        all_have_ended(owner).await;
    }
    assert_eq!(count(owner, "tenant.idempotency_keys").await, 3, "{left}: the reservations are committed");
    leave_open(pool, left).await;
    let extended = store.extend(&done.reservation, 2 * HOUR).await.expect("the store answers");
    assert_eq!(extended, ExtendOutcome::Extended, "{left}");
    leave_open(pool, left).await;
    let completed = store.complete(&done.reservation, &completion("done")).await.expect("the store answers");
    assert_eq!(completed, CompleteOutcome::Completed, "{left}");
    leave_open(pool, left).await;
    let outcome = store.release(&released.reservation).await.expect("the store answers");
    assert_eq!(outcome, ReleaseOutcome::Released, "{left}");
    leave_open(pool, left).await;
    store.abandon(&abandoned.reservation).await.expect("the store answers");
    leave_open(pool, left).await;
    store.sweep(10).await.expect("the store answers");
    all_have_ended(owner).await;
    let kept = "tenant.idempotency_keys WHERE outcome_unknown OR response_bytes IS NOT NULL";
    assert_eq!((count(owner, kept).await, count(owner, "tenant.idempotency_keys").await), (2, 2), "{left}");
    owner.batch_execute("DELETE FROM tenant.idempotency_keys").await.expect("clean");
}

#[tokio::test]
async fn are_closed_and_the_operation_is_done_on_another() {
    let (database, owner) = Database::with_owner().await;
    let pool = database.pool(2);
    let store = PostgresStore::new(pool.clone(), organization::resource_types()).timeout(HOUR / 60);
    for left in LEFT {
        does_every_operation(&store, &pool, &owner, left).await;
        does_every_operation(&store.clone().prepared_statements(PreparedStatements::Never), &pool, &owner, left).await;
    }
}

#[tokio::test]
async fn are_closed_behind_pgbouncer_too() {
    if let Some(why) = PgBouncer::missing() {
        return skip("pgbouncer", why);
    }
    let (database, owner) = Database::with_owner().await;
    let (_bouncer, pool) = database.pool_through_bouncer(2).await;
    let store = PostgresStore::new(pool.clone(), organization::resource_types()).timeout(HOUR / 60);
    for left in LEFT {
        does_every_operation(&store, &pool, &owner, left).await;
    }
}
