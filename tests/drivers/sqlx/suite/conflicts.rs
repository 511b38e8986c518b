//! Conflicts with other transactions, which sqlx does not report by itself.

use driver_suite::{Call, DEADLOCK, Service, Stack as _, isolation::lose, patient, pool, reason};
use sqlx::Executor as _;
use tonic::{Code, Status};
use tonic_idempotency::{
    rejection::Reason,
    store::{CallSession, StoreErrorKind},
};
use tonic_idempotency_sqlx::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

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

/// The transaction has failed, and the reason is not known.
#[tokio::test]
async fn that_the_handler_swallows_are_refusals() {
    assert_eq!(lose::<SqlxStack>(DEADLOCK, |_, _| Ok(Uuid::nil())).await, Some(Reason::NotCommitted));

    let database = Database::new().await;
    let session = CallSession { user: Some(database.user().await.id), settings: None };
    let store = patient::<SqlxStack>(pool::<SqlxStack>(&database, 1));
    let transaction = SqlxStack::begin(&store, &session).await.expect("a transaction");
    transaction.connection().await.expect("the connection").execute(DEADLOCK).await.expect_err("it loses");
    assert_eq!(transaction.commit().await.expect_err("a failure").kind(), StoreErrorKind::Refused);
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
