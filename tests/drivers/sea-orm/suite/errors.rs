//! The mapping of sea-orm's errors to kinds, codes and statuses.

use driver_suite::{DEADLOCK, SERIALIZATION_FAILURE};
use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, RuntimeErr, Statement, TransactionError as ClosureError, TransactionTrait as _,
};
use tonic::{Code, Status};
use tonic_idempotency::store::{TransactionErrorKind, driver::Driver as _};
use tonic_idempotency_sea_orm::{SeaOrm, TransactionError};

use crate::harness::{begin, kind, mark, marked};

async fn error(of: &impl ConnectionTrait, sql: &str) -> DbErr {
    of.execute_unprepared(sql).await.expect_err("it fails")
}

#[tokio::test]
async fn have_a_kind_a_code_and_a_status_that_says_nothing_about_the_database() {
    let (_database, _owner, connection) = marked().await;
    let refused = "INTERNAL internal database error";
    for (sql, kind, code, said) in [
        ("SELECT 1 / 0", TransactionErrorKind::Refused, "22012", refused),
        (DEADLOCK, TransactionErrorKind::Conflict, "40P01", "ABORTED the call lost against another call; retry"),
        (
            "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '57P01'; END $$",
            TransactionErrorKind::Refused,
            "57P01",
            refused,
        ),
    ] {
        let failed = error(&connection, sql).await;
        let failed = TransactionError::from(failed);
        assert_eq!((failed.kind(), failed.code()), (kind, Some(code)));
        assert!(matches!(failed.as_db_err(), Some(DbErr::Exec(RuntimeErr::SqlxError(_)))));
        let status = Status::from(failed);
        let name = match status.code() {
            Code::Internal => "INTERNAL",
            Code::Aborted => "ABORTED",
            _ => continue,
        };
        assert_eq!(format!("{name} {}", status.message()), said);
    }
    let absent = TransactionError::from(DbErr::RecordNotFound("a secret".to_owned()));
    assert_eq!((absent.kind(), absent.code()), (TransactionErrorKind::Refused, None));
    assert_eq!(Status::from(absent).message(), "internal database error");
    for error in [ClosureError::Connection(DbErr::RecordNotUpdated), ClosureError::Transaction(DbErr::RecordNotUpdated)]
    {
        assert_eq!(TransactionError::from(error).as_db_err(), Some(&DbErr::RecordNotUpdated));
    }
}

/// sea-orm's errors do not all have their causes as their sources.
#[tokio::test]
async fn are_conflicts_whatever_they_are_wrapped_in() {
    let (_database, _owner, connection) = marked().await;
    for sql in [DEADLOCK, SERIALIZATION_FAILURE] {
        let lost = error(&connection, sql).await;
        let DbErr::Exec(runtime) = &lost else { panic!("{lost:?}") };
        assert!(SeaOrm::is_conflict(&lost));
        assert!(SeaOrm::is_conflict(runtime));
        assert!(SeaOrm::is_conflict(&DbErr::Conn(runtime.clone())));
        assert!(SeaOrm::is_conflict(&DbErr::Query(runtime.clone())));
        assert!(SeaOrm::is_conflict(&ClosureError::<DbErr>::Connection(lost.clone())));
        assert!(SeaOrm::is_conflict(&ClosureError::Transaction(lost.clone())));
        assert!(SeaOrm::is_conflict(&ClosureError::Transaction(TransactionError::from(lost.clone()))));
        assert!(SeaOrm::is_conflict(&TransactionError::from(lost)));
    }
    let other = error(&connection, "SELECT 1 / 0").await;
    assert!(!SeaOrm::is_conflict(&other));
    assert!(!SeaOrm::is_conflict(&ClosureError::Transaction(TransactionError::from(other))));
    assert!(!SeaOrm::is_conflict(&DbErr::RecordNotInserted));
}

#[tokio::test]
async fn of_another_connection_are_noted_if_the_handler_says_so() {
    let (_database, _owner, connection) = marked().await;
    for (sql, commits) in [(DEADLOCK, false), ("SELECT 1 / 0", true)] {
        let transaction = begin(&connection).await;
        mark(&*transaction, 1).await.expect("a mark");
        transaction.note(&error(&connection, sql).await);
        assert_eq!(transaction.commit().await.is_ok(), commits);
    }
}

/// sqlx returns the first row at once, and would report an error in a later row with the next statement.
#[tokio::test]
async fn in_a_later_row_are_those_of_their_statement() {
    let (_database, _owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    let nested = transaction.begin().await.expect("a savepoint");
    let late = "SELECT 1 / (5000 - number) FROM generate_series(1, 9000) number";
    let late = nested.query_one_raw(Statement::from_string(DbBackend::Postgres, late)).await;
    assert_eq!(kind(late), Some(TransactionErrorKind::Refused));
    nested.rollback().await.expect("it is rolled back");
    mark(&*transaction, 1).await.expect("the transaction lives");
    transaction.commit().await.expect("it commits");
}
