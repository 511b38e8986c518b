//! The application's `DatabaseConnection`.

use std::sync::Arc;

use driver_suite::{patient, pool};
use sea_orm::{ConnectionTrait as _, DatabaseBackend, DatabaseConnection, MockDatabase};
use tonic_idempotency::store::{Store as _, StoreErrorKind, TransactionErrorKind};
use tonic_idempotency_sea_orm::{SeaOrm, Transaction};
use tonic_idempotency_tests::Database;

use crate::{
    harness::{begin, kind, mark, marked, marks},
    stack::SeaOrmStack,
};

#[tokio::test]
async fn is_refused_if_it_is_not_one_to_postgresql() {
    let mocks = [DatabaseBackend::Postgres, DatabaseBackend::MySql, DatabaseBackend::Sqlite]
        .map(|backend| (MockDatabase::new(backend).into_connection(), "MockDatabaseConnection"));
    for (connection, name) in mocks.into_iter().chain([(DatabaseConnection::default(), "Disconnected")]) {
        let refused = SeaOrm::new(&connection).expect_err("not a PostgreSQL");
        let said = refused.to_string();
        assert!(said.contains("PostgreSQL") && said.ends_with(name), "{said}");
        let refused = Transaction::begin(&connection).await.expect_err("not a PostgreSQL");
        assert_eq!(refused.kind(), StoreErrorKind::Refused);
    }
}

#[tokio::test]
async fn that_is_closed_makes_the_store_unreachable() {
    let database = Database::new().await;
    let pool = pool::<SeaOrmStack>(&database, 2);
    let store = patient::<SeaOrmStack>(pool.clone());
    store.sweep(1).await.expect("the store answers");
    pool.0.close().await.expect("it is closed");
    let unreachable = store.sweep(1).await.expect_err("the pool is closed");
    assert_eq!(unreachable.kind(), StoreErrorKind::Unreachable);
}

/// An open transaction goes on.
#[tokio::test]
async fn that_is_closed_lets_an_open_transaction_end() {
    let (_database, owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    let closing = tokio::spawn(connection.close());
    mark(&*transaction, 1).await.expect("a mark");
    transaction.commit().await.expect("it commits");
    closing.await.expect("no panic").expect("it is closed");
    assert_eq!(marks(&owner).await, [1]);
}

/// A statement that still runs then is abandoned.
#[tokio::test]
async fn of_a_transaction_is_gone_when_that_ends() {
    let (_database, owner, connection) = marked().await;
    for commits in [true, false] {
        let transaction = begin(&connection).await;
        mark(&*transaction, i32::from(commits)).await.expect("a mark");
        let handle = Arc::new(Transaction::clone(&transaction));
        let waits = tokio::spawn({
            let handle = Arc::clone(&handle);
            // The pause is the fault: the statement has no answer when the transaction ends.
            async move { handle.execute_unprepared("SELECT pg_sleep(0.2)").await.map(drop) }
        });
        tokio::task::yield_now().await;
        if commits {
            transaction.commit().await.expect("it commits")
        } else {
            transaction.roll_back().await
        }
        let ended = Some(TransactionErrorKind::Ended);
        assert_eq!(kind(waits.await.expect("no panic")), ended);
        assert_eq!(kind(mark(&*handle, 2).await), ended);
        assert_eq!(kind(sea_orm::TransactionTrait::begin(&*handle).await), ended);
    }
    assert_eq!(marks(&owner).await, [1]);
}
