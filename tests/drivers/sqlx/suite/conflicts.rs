//! Conflicts with other transactions, which sqlx does not report by itself.

use driver_suite::{Call, DEADLOCK, Service, pool, reason};
use sqlx::Executor as _;
use tonic::{Code, Status};
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_sqlx::TransactionError;
use tonic_idempotency_tests::Database;

use crate::stack::SqlxStack;

#[tokio::test]
async fn are_reported_if_the_source_of_the_answer_is_an_error_of_sqlx() {
    let database = Database::new().await;
    let pool = pool::<SqlxStack>(&database, 2);
    let service = Service::new(&database, pool, |call: Call<SqlxStack>| async move {
        let lost = call.connection().await?.execute(DEADLOCK).await.expect_err("it loses");
        Err(Status::from_error(Box::new(lost)))
    })
    .await;
    for key in [service.key, None] {
        assert_eq!(reason(service.with_key(key).create("shop").await), Reason::Conflict);
    }
}

#[tokio::test]
async fn are_told_from_other_errors_by_their_sqlstates() {
    let database = Database::new().await;
    let service = Service::new(&database, pool::<SqlxStack>(&database, 2), |call: Call<SqlxStack>| async move {
        let failed = call.connection().await?.execute("SELECT 1 / 0").await.expect_err("a division by zero");
        let failed = TransactionError::from(failed);
        assert_eq!(failed.code(), Some("22012"));
        Err(failed.into())
    })
    .await;
    assert_eq!(service.create("shop").await.expect_err("it fails").code(), Code::Internal);
}
