//! Streams of rows.

use driver_suite::DEADLOCK;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use sea_orm::{ConnectionTrait as _, DbBackend, DbErr, QueryResult, Statement, StreamTrait, TransactionTrait as _};
use tonic_idempotency::store::{StoreErrorKind, TransactionErrorKind};

use crate::harness::{begin, kind, mark, marked, marks};

fn numbers(to: i32) -> Statement {
    let select = "SELECT generate_series(1, $1) AS number";
    Statement::from_sql_and_values(DbBackend::Postgres, select, [to.into()])
}

fn number(row: QueryResult) -> i32 {
    row.try_get("", "number").expect("a number")
}

/// A repository.
async fn sum(of: &impl StreamTrait, to: i32) -> Result<i32, DbErr> {
    of.stream_raw(numbers(to)).await?.try_fold(0, async |sum, row| Ok(sum + number(row))).await
}

#[tokio::test]
async fn have_all_rows_in_their_order() {
    let (_database, _owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    for to in [0, 1, 2, 5000] {
        let rows: Vec<_> =
            transaction.stream_raw(numbers(to)).await.expect("a stream").try_collect().await.expect("rows");
        assert!(rows.into_iter().map(number).eq(1..=to));
    }
    let savepoint = transaction.begin().await.expect("a savepoint");
    for of_pool in [sum(&connection, 9).await, sum(&*transaction, 9).await, sum(&savepoint, 9).await] {
        assert_eq!(of_pool.expect("a sum"), 45);
    }
}

/// Unread rows and errors do not reach the next statement.
#[tokio::test]
async fn that_are_dropped_half_read_leave_the_transaction_usable() {
    let (_database, owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    let mut stream = transaction.stream_raw(numbers(5000)).await.expect("a stream");
    assert_eq!(stream.next().await.map(|row| number(row.expect("a row"))), Some(1));
    assert!(mark(&*transaction, 1).now_or_never().is_none(), "the stream has the connection");
    drop(stream);
    mark(&*transaction, 1).await.expect("a mark");

    let savepoint = transaction.begin().await.expect("a savepoint");
    let late = "SELECT 1 / (5000 - number) AS number FROM generate_series(1, 9000) number";
    let late = Statement::from_string(DbBackend::Postgres, late);
    let mut stream = savepoint.stream_raw(late).await.expect("a stream");
    stream.next().await.expect("a row").expect("a row");
    drop(stream);
    drop(savepoint);
    mark(&*transaction, 2).await.expect("the transaction lives");
    transaction.commit().await.expect("it commits");
    assert_eq!(marks(&owner).await, [1, 2]);
}

#[tokio::test]
async fn end_with_the_error_of_their_statement() {
    let (_database, _owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    let late = "SELECT 1 / (3 - number) AS number FROM generate_series(1, 9) number";
    let late = Statement::from_string(DbBackend::Postgres, late);
    let mut stream = transaction.stream_raw(late).await.expect("a stream");
    let mut failed = None;
    while let Some(row) = stream.next().await {
        assert!(failed.is_none(), "nothing comes after the error");
        failed = kind(row);
    }
    assert_eq!(failed, Some(TransactionErrorKind::Refused));
    drop(stream);
    transaction.commit().await.expect_err("it has failed");
}

#[tokio::test]
async fn note_a_conflict() {
    let (_database, owner, connection) = marked().await;
    let lose = format!(
        "CREATE FUNCTION public.lose() RETURNS integer LANGUAGE plpgsql AS $f$ {} $f$",
        &DEADLOCK[6..DEADLOCK.len() - 3]
    );
    owner.batch_execute(&lose).await.expect("the function");
    let transaction = begin(&connection).await;
    let select = Statement::from_string(DbBackend::Postgres, "SELECT public.lose()");
    let lost: Result<Vec<_>, _> = transaction.stream_raw(select).await.expect("a stream").try_collect().await;
    assert_eq!(kind(lost), Some(TransactionErrorKind::Conflict));
    let lost = transaction.commit().await.expect_err("it has lost");
    assert_eq!(lost.kind(), StoreErrorKind::Conflict);
}

#[tokio::test]
async fn end_with_the_call() {
    let (_database, _owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    let mut stream = transaction.stream_raw(numbers(5000)).await.expect("a stream");
    stream.next().await.expect("a row").expect("a row");
    let handle = tonic_idempotency_sea_orm::Transaction::clone(&transaction);
    let ended = tokio::spawn(async move { transaction.roll_back().await });
    let ends = async {
        while let Some(row) = stream.next().await {
            if let Err(error) = row {
                return kind(Err::<(), _>(error));
            }
            tokio::task::yield_now().await;
        }
        None
    };
    assert_eq!(ends.await, Some(TransactionErrorKind::Ended));
    ended.await.expect("no panic");
    let late = handle.execute_unprepared("SELECT 1").await;
    assert_eq!(kind(late), Some(TransactionErrorKind::Ended));
}
