//! Round trips to PostgreSQL of whole calls, and what they leave prepared.

use driver_suite::{RoundTrips, take, text};
use tonic_idempotency_tests::Database;

use crate::harness::{Call, PostgresStack, Service};

/// BEGIN is sent with the claim, and COMMIT with the record.
#[tokio::test]
async fn are_one_to_begin_and_one_to_commit() {
    let database = Database::new().await;
    let mut trips = RoundTrips::<PostgresStack>::new(&database).await;
    let service = Service::new(&database, trips.pool.clone(), |call: Call| async move { call.insert().await }).await;
    service.create("shop").await.expect("a call");
    assert_eq!(trips.take().await, 3, "claim, insert, commit");
    service.create("shop").await.expect("a replay");
    // The ROLLBACK follows the answer, and no caller waits for it.
    assert_eq!(trips.take().await, 2, "replay, and ROLLBACK behind it");
    service.with_key(None).create("shop").await.expect("a call");
    assert_eq!(trips.take().await, 3, "begin, insert, commit");
}

#[tokio::test]
async fn leave_no_statement_prepared() {
    let database = Database::new().await;
    let pool = database.pool(1);
    let service = Service::new(&database, pool.clone(), |call: Call| async move { call.insert().await }).await;
    for key in [service.key, service.key, None] {
        service.with_key(key).create("shop").await.expect("a call");
        let [connection] = &mut take::<PostgresStack>(&pool, 1).await[..] else { panic!("one connection") };
        let prepared = text::<PostgresStack>(connection, "SELECT count(*)::text AS text FROM pg_prepared_statements");
        assert_eq!(prepared.await, "0");
    }
}
