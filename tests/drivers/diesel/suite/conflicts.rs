//! Conflicts with other transactions, as errors of diesel.

use diesel_async::SimpleAsyncConnection as _;
use driver_suite::{Call, DEADLOCK, Service, pool, reason};
use tonic::Status;
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_tests::Database;

use crate::stack::DeadpoolStack;

#[tokio::test]
async fn are_reported_if_the_source_of_the_answer_is_an_error_of_diesel() {
    let database = Database::new().await;
    let pool = pool::<DeadpoolStack>(&database, 2);
    let service = Service::new(&database, pool, |call: Call<DeadpoolStack>| async move {
        let lost = call.connection().await?.batch_execute(DEADLOCK).await.expect_err("it loses");
        Err(Status::from_error(Box::new(lost)))
    })
    .await;
    for key in [service.key, None] {
        assert_eq!(reason(service.with_key(key).create("shop").await), Reason::Conflict);
    }
}
