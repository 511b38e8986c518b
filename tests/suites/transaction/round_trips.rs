//! Round trips to PostgreSQL of whole calls.

use driver_suite::RoundTrips;

use crate::prelude::*;

/// BEGIN is sent with the claim, and COMMIT with the record.
#[tokio::test]
async fn are_one_to_begin_and_one_to_commit() {
    let database = Database::new().await;
    let mut trips = RoundTrips::<PostgresStack>::new(&database).await;
    let service = Service::new(&database, trips.pool.clone(), |call: Call| async move { call.insert().await }).await;
    // The statements are prepared once for each connection.
    let key = Some(uuid::Uuid::new_v4());
    for key in [key, key, None] {
        service.with_key(key).create("shop").await.expect("a call");
    }
    trips.take().await;
    service.create("shop").await.expect("a call");
    assert_eq!(trips.take().await, 3, "claim, insert, commit");
    service.create("shop").await.expect("a replay");
    // The ROLLBACK follows the answer, and no caller waits for it.
    assert_eq!(trips.take().await, 3, "a key that is not free, its record, and ROLLBACK behind it");
    service.with_key(None).create("shop").await.expect("a call");
    assert_eq!(trips.take().await, 3, "begin, insert, commit");
}
