//! The SQLSTATEs that are recognised by the server's messages.

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use tonic_idempotency::store::TransactionErrorKind;
use tonic_idempotency_diesel::TransactionError;
use tonic_idempotency_tests::Database;

/// The error of the last of these statements, each of which is sent on its own.
async fn error(database: &Database, statements: &[&str]) -> TransactionError {
    let mut connection = AsyncPgConnection::establish(database.url()).await.expect("a connection");
    let (last, before) = statements.split_last().expect("a statement");
    for statement in before {
        let _ = connection.batch_execute(statement).await;
    }
    connection.batch_execute(last).await.expect_err("it fails").into()
}

#[tokio::test]
async fn of_what_the_store_decides_by_are_told() {
    let database = Database::new().await;
    let cases: [(&[&str], &str); 16] = [
        (&["BEGIN; SELECT 1", "BEGIN ISOLATION LEVEL SERIALIZABLE"], "25001"),
        (&["BEGIN; SELECT 1", "SELECT set_config('transaction_deferrable', 'off', true)"], "25001"),
        (&["SAVEPOINT a"], "25P01"),
        (&["BEGIN", "SELECT 1 / 0", "SELECT 1"], "25P02"),
        (&["BEGIN", "CALL tenant.idempotency_sweep(1, NULL)"], "2D000"),
        (&["BEGIN", "ROLLBACK TO SAVEPOINT idempotency_handler"], "3B001"),
        (&["BEGIN READ ONLY", "DELETE FROM tenant.projects"], "25006"),
        (&["SET statement_timeout = 1", "SELECT pg_sleep(60)"], "57014"),
        (&["DO $$ BEGIN RAISE EXCEPTION '' USING ERRCODE = '40001'; END $$"], "40001"),
        (&["DEALLOCATE nothing"], "26000"),
        (&["PREPARE a AS SELECT 1", "PREPARE a AS SELECT 1"], "42P05"),
        (&["SELECT 'a'::uuid"], "22P02"),
        (&["SELECT '99999999999'::integer"], "22003"),
        (&["SELECT 99999999999::integer"], "22003"),
        (&["SELECT nothing FROM tenant.projects"], "42703"),
        (&["SELECT FROM nothing"], "42P01"),
    ];
    for (statements, code) in cases {
        let error = error(&database, statements).await;
        assert_eq!(error.code(), Some(code), "{statements:?}: {:?}", error.as_diesel_error());
    }
}

#[tokio::test]
async fn of_a_lock_that_is_not_to_be_had_are_told() {
    let database = Database::new().await;
    let owner = database.owner().await;
    owner.batch_execute("BEGIN; LOCK TABLE tenant.projects").await.expect("the lock");
    for statements in [
        &["BEGIN", "LOCK TABLE tenant.projects NOWAIT"] as &[_],
        &["SET lock_timeout = 1", "DELETE FROM tenant.projects"],
    ] {
        assert_eq!(error(&database, statements).await.code(), Some("55P03"), "{statements:?}");
    }
}

#[tokio::test]
async fn of_a_connection_that_the_server_ends_say_that_it_is_lost() {
    let database = Database::new().await;
    let ended = error(&database, &["SELECT pg_terminate_backend(pg_backend_pid())"]).await;
    assert_eq!(ended.kind(), TransactionErrorKind::Lost);
    let afterwards = ["SELECT pg_terminate_backend(pg_backend_pid())", "SELECT 1"];
    assert_eq!(error(&database, &afterwards).await.kind(), TransactionErrorKind::Lost);
}

#[tokio::test]
async fn of_other_errors_are_not_guessed() {
    let database = Database::new().await;
    let raise = |message: &str| format!("DO $$ BEGIN RAISE EXCEPTION '{message}'; END $$");
    for message in ["the account is closed", "a deadlock detected by the application", "TI001"] {
        let error = error(&database, &[&raise(message)]).await;
        assert_eq!((error.kind(), error.code()), (TransactionErrorKind::Refused, None), "{message}");
    }
}
