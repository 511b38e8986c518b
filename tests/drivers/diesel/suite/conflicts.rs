//! Conflicts with other transactions: diesel notices a serialization failure by itself, and not a deadlock.

use diesel_async::SimpleAsyncConnection as _;
use driver_suite::{Call, DEADLOCK, SERIALIZATION_FAILURE, Service, isolation::lose, patient, pool, reason};
use tonic::Status;
use tonic_idempotency::{
    rejection::Reason,
    store::{CallSession, StoreErrorKind},
};
use tonic_idempotency_diesel::Transaction;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

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

#[tokio::test]
async fn of_serialization_are_reported_whatever_the_handler_answers() {
    let answers: [driver_suite::isolation::Answer<DeadpoolStack>; 3] = [
        |_, _| Err(Status::internal("something is wrong")),
        |_, _| Err(Status::failed_precondition("a final error")),
        |_, _| Ok(Uuid::nil()),
    ];
    for answer in answers {
        assert_eq!(lose::<DeadpoolStack>(SERIALIZATION_FAILURE, answer).await, Some(Reason::Conflict));
    }
}

#[tokio::test]
async fn of_locks_that_the_handler_swallows_are_refusals() {
    assert_eq!(lose::<DeadpoolStack>(DEADLOCK, |_, _| Ok(Uuid::nil())).await, Some(Reason::NotCommitted));
}

#[tokio::test]
async fn do_not_commit_a_transaction_without_a_call() {
    for (statement, kind) in [(DEADLOCK, StoreErrorKind::Refused), (SERIALIZATION_FAILURE, StoreErrorKind::Conflict)] {
        let database = Database::new().await;
        let session = CallSession { user: Some(database.user().await.id), settings: None };
        let store = patient::<DeadpoolStack>(pool::<DeadpoolStack>(&database, 1));
        let transaction = Transaction::begin_on(&store, &session).await;
        let transaction = transaction.expect("a transaction");
        let mut connection = transaction.connection().await.expect("the connection");
        connection.batch_execute(statement).await.expect_err("it loses");
        drop(connection);
        assert_eq!(transaction.commit().await.expect_err("a failure").kind(), kind);
    }
}
