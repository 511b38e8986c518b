//! Conflicts with other transactions, as the client sees them.

use std::sync::Arc;

use driver_suite::{Call, DEADLOCK, Service, pool, reason};
use sea_orm::{ConnectionTrait as _, DbErr, TransactionError as ClosureError, TransactionTrait as _};
use tonic::Status;
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_sea_orm::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::stack::SeaOrmStack;

/// The closure's transaction is rolled back, and the handler gives up because of it.
#[tokio::test]
async fn of_a_nested_transaction_are_reported_if_they_are_the_source_of_the_answer() {
    let answers: [fn(ClosureError<DbErr>) -> Status; 3] = [
        |lost| TransactionError::from(lost).into(),
        |lost| Status::from_error(Box::new(lost)),
        |lost| {
            let ClosureError::Transaction(lost) = lost else { panic!("the error of the closure") };
            let mut status = Status::internal("something is wrong");
            status.set_source(Arc::new(lost));
            status
        },
    ];
    for answer in answers {
        let database = Database::new().await;
        let pool = pool::<SeaOrmStack>(&database, 2);
        let service = Service::new(&database, pool, move |call: Call<SeaOrmStack>| async move {
            let db = call.transaction();
            let nested = db.transaction::<_, Uuid, DbErr>(|inner| {
                Box::pin(async move { inner.execute_unprepared(DEADLOCK).await.map(|_| Uuid::nil()) })
            });
            nested.await.map_err(answer)
        })
        .await;
        for key in [service.key, None] {
            assert_eq!(reason(service.with_key(key).create("shop").await), Reason::Conflict);
        }
    }
}
