//! Connections that come with a transaction that sqlx counts.

use driver_suite::{Call, Service, all_are_back, assert_clean, new_claim, patient, pool, rows};
use sqlx::{Connection as _, Executor as _, PgPool};
use tonic_idempotency::store::{ClaimOutcome, Store as _};
use tonic_idempotency_tests::Database;

use crate::stack::SqlxStack;

#[tokio::test]
async fn with_a_transaction_that_is_counted_are_replaced() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<SqlxStack>(&database, 1);
    let script = |call: Call<SqlxStack>| async move { call.insert().await };
    let service = Service::new(&database, pool.clone(), script).await;
    for service in [service.with_new_key(), service.with_key(None)] {
        leave_open(&pool).await;
        service.create("shop").await.expect("a call");
        assert_clean::<SqlxStack>(&pool).await;
    }
    leave_open(&pool).await;
    let claimed = patient::<SqlxStack>(pool.clone()).claim(&new_claim()).await;
    assert!(matches!(claimed, Ok(ClaimOutcome::Acquired)), "{claimed:?}");
    assert_clean::<SqlxStack>(&pool).await;
    assert_eq!(rows(&owner).await, [2, 2, 2]);
}

/// Leaves a transaction open on the connection of the pool.
async fn leave_open(pool: &PgPool) {
    let mut connection = pool.acquire().await.expect("a connection");
    std::mem::forget(connection.begin().await.expect("a transaction"));
    // With a query: an empty transaction is the next one's.
    connection.execute("SELECT 1").await.expect("a query");
    drop(connection);
    all_are_back::<SqlxStack>(pool).await;
}
