//! Nested transactions: sea-orm's ways to begin and end them, and futures that are dropped.

use std::pin::pin;

use driver_suite::{DEADLOCK, sequences};
use futures_util::FutureExt as _;
use sea_orm::{
    AccessMode, ConnectionTrait, DbErr, IsolationLevel, TransactionError as ClosureError, TransactionOptions,
    TransactionSession as _, TransactionTrait,
};
use tonic_idempotency::store::{StoreErrorKind, TransactionErrorKind};
use tonic_idempotency_sea_orm::{Transaction, TransactionError};

use crate::{
    harness::{begin, kind, mark, marked, marks},
    stack::SeaOrmStack,
};

const REFUSED: Option<TransactionErrorKind> = Some(TransactionErrorKind::Refused);

/// A statement that loses a deadlock after a while. The pause is the fault: its answer comes only after its future was dropped.
const LOSE_LATE: &str =
    "DO $$ BEGIN PERFORM pg_sleep(0.05); RAISE EXCEPTION 'lost' USING ERRCODE = 'deadlock_detected'; END $$";

/// A repository that begins a transaction of its own on the handle that it is given.
async fn mark_twice(to: &impl TransactionTrait, first: i32) -> Result<(), DbErr> {
    let nested = to.begin().await?;
    mark(&nested, first).await?;
    mark(&nested, first + 1).await?;
    nested.commit().await
}

/// The same, with nested ones inside, in a closure.
async fn in_closures<C: ConnectionTrait + TransactionTrait>(to: &C, first: i32) -> Result<(), ClosureError<DbErr>> {
    to.transaction(|outer| {
        Box::pin(async move {
            mark(outer, first).await?;
            let refused = outer.transaction::<_, (), DbErr>(|inner| {
                Box::pin(async move {
                    mark_twice(inner, first + 1).await?;
                    Err(DbErr::Custom("no".to_owned()))
                })
            });
            assert!(matches!(refused.await, Err(ClosureError::Transaction(DbErr::Custom(_)))));
            mark_twice(outer, first + 3).await
        })
    })
    .await
}

/// The same code on a pool, on a transaction, and inside of one of its savepoints.
#[tokio::test]
async fn are_those_of_sea_orm() {
    let (_database, owner, connection) = marked().await;
    mark_twice(&connection, 1).await.expect("the pool's own");
    in_closures(&connection, 3).await.expect("the pool's own");

    let transaction = begin(&connection).await;
    mark_twice(&*transaction, 11).await.expect("a savepoint");
    in_closures(&*transaction, 13).await.expect("savepoints");
    let savepoint = transaction.begin().await.expect("a savepoint");
    mark_twice(&savepoint, 21).await.expect("a savepoint");
    in_closures(&savepoint, 23).await.expect("savepoints");
    savepoint.commit().await.expect("it is released");
    transaction.commit().await.expect("it commits");
    let each = [1, 2, 3, 6, 7];
    let expected: Vec<_> = [0, 10, 20].iter().flat_map(|base| each.map(|mark| base + mark)).collect();
    assert_eq!(marks(&owner).await, expected);
}

/// In a task, as a handler runs.
#[tokio::test]
async fn have_async_closures() {
    let (_database, owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    let handle = Transaction::clone(&transaction);
    let work = tokio::spawn(async move {
        let kept = handle.transaction_async(async |outer| {
            mark(outer, 1).await?;
            let refused = outer.transaction_async(async |inner| {
                mark(inner, 2).await?;
                Err::<(), _>(DbErr::Custom("no".to_owned()))
            });
            assert!(matches!(refused.await, Err(ClosureError::Transaction(DbErr::Custom(_)))));
            Ok::<_, DbErr>(())
        });
        kept.await.expect("it is committed");
        let mode = Some(AccessMode::ReadOnly);
        let reads = handle.transaction_with_config_async(async |inner| mark(inner, 3).await, None, mode);
        let refused = TransactionError::from(reads.await.expect_err("it only reads"));
        assert_eq!(refused.code(), Some("25006"));
    });
    work.await.expect("no panic");
    transaction.commit().await.expect("it commits");
    assert_eq!(marks(&owner).await, [1]);
}

/// sea-orm's own is not rolled back then.
#[tokio::test]
async fn that_are_dropped_while_a_statement_runs_are_rolled_back() {
    let (_database, owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    let nested = transaction.begin().await.expect("a savepoint");
    mark(&nested, 1).await.expect("a mark");
    {
        let handle = Transaction::clone(&nested);
        // The pause is the fault: the savepoint is dropped before the answer comes.
        let mut running = pin!(handle.execute_unprepared("SELECT pg_sleep(0.05)"));
        assert!((&mut running).now_or_never().is_none(), "it has the connection");
        drop(nested);
        running.await.expect("it ends");
    }
    mark(&*transaction, 2).await.expect("a mark");
    transaction.commit().await.expect("it commits");
    assert_eq!(marks(&owner).await, [2]);
}

/// Each future is dropped before it is polled, or as soon as it waits.
#[tokio::test]
async fn whose_futures_are_dropped_are_as_if_they_were_not_or_had_ended() {
    for is_polled in [false, true] {
        let (_database, owner, connection) = marked().await;
        let owned = begin(&connection).await;
        let transaction = Transaction::clone(&owned);
        let give_up = |future: futures_util::future::BoxFuture<'_, ()>| {
            if is_polled {
                assert!(future.now_or_never().is_none(), "it waits for the server");
            }
        };
        give_up(Box::pin(async { drop(transaction.begin().await) }));
        mark(&transaction, 1).await.expect("a mark");

        let committed = transaction.begin().await.expect("a savepoint");
        mark(&committed, 2).await.expect("a mark");
        give_up(Box::pin(async { committed.commit().await.expect("it ends") }));
        mark(&transaction, 3).await.expect("a mark");

        let rolled_back = transaction.begin().await.expect("a savepoint");
        mark(&rolled_back, 4).await.expect("a mark");
        give_up(Box::pin(async { rolled_back.rollback().await.expect("it ends") }));
        mark(&transaction, 5).await.expect("a mark");

        // The rollback of a dropped one, which the next statement sends.
        let dropped = transaction.begin().await.expect("a savepoint");
        mark(&dropped, 6).await.expect("a mark");
        drop(dropped);
        give_up(Box::pin(async { mark(&transaction, 7).await.expect("a mark") }));
        mark(&transaction, 8).await.expect("a mark");
        owned.commit().await.expect("it commits");
        let expected = if is_polled { vec![1, 2, 3, 5, 8] } else { vec![1, 3, 5, 8] };
        let found: Vec<_> = marks(&owner).await.into_iter().filter(|mark| *mark != 7).collect();
        assert_eq!(found, expected, "polled: {is_polled}");
    }
}

#[tokio::test]
async fn whose_beginning_is_dropped_are_not_left_behind() {
    let (_database, _owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    assert!(transaction.begin().now_or_never().is_none(), "it waits for the server");
    mark(&*transaction, 1).await.expect("a mark");
    let absent = transaction.execute_unprepared("RELEASE SAVEPOINT idempotency_1").await;
    assert_eq!(TransactionError::from(absent.expect_err("there is none")).code(), Some("3B001"));
}

/// No other statement reports its error.
#[tokio::test]
async fn forget_the_error_of_a_statement_that_was_given_up_inside_of_them() {
    let (_database, owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    // The pause is the fault, as in the other.
    for fails_late in ["SELECT pg_sleep(0.05), 1 / (random() * 0)::integer", LOSE_LATE] {
        let nested = transaction.begin().await.expect("a savepoint");
        assert!(nested.execute_unprepared(fails_late).now_or_never().is_none(), "there is no answer yet");
        drop(nested);
        mark(&*transaction, fails_late.len().try_into().expect("short")).await.expect("the transaction lives");
    }
    let nested = transaction.begin().await.expect("a savepoint");
    assert!(nested.execute_unprepared(LOSE_LATE).now_or_never().is_none(), "there is no answer yet");
    drop(nested);
    transaction.commit().await.expect("it commits");
    assert_eq!(marks(&owner).await.len(), 2);
}

/// The statement was not in a savepoint, so the transaction has failed.
#[tokio::test]
async fn do_not_hide_a_conflict_that_was_given_up_outside_of_them() {
    let (_database, owner, connection) = marked().await;
    for more in [true, false] {
        let transaction = begin(&connection).await;
        mark(&*transaction, 1).await.expect("a mark");
        assert!(transaction.execute_unprepared(LOSE_LATE).now_or_never().is_none(), "there is no answer yet");
        if more {
            let nested = transaction.begin().await;
            assert_eq!(kind(nested), REFUSED, "the transaction has failed");
        }
        let lost = transaction.commit().await.expect_err("it has lost");
        assert_eq!(lost.kind(), StoreErrorKind::Conflict);
    }
    assert!(marks(&owner).await.is_empty());
}

/// One that is rolled back takes its conflict along; one that never ends does not.
#[tokio::test]
async fn that_lose_and_never_end_fail_the_transaction() {
    let (_database, owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    let nested = transaction.begin().await.expect("a savepoint");
    let inner = nested.begin().await.expect("a savepoint");
    inner.execute_unprepared(DEADLOCK).await.expect_err("it loses");
    std::mem::forget(inner);
    assert_eq!(transaction.commit().await.expect_err("it has lost").kind(), StoreErrorKind::Conflict);
    assert!(marks(&owner).await.is_empty());
}

/// PostgreSQL refuses what it cannot do; nothing is ignored.
#[tokio::test]
async fn have_their_own_access_mode_and_no_other_isolation_level() {
    let (_database, owner, connection) = marked().await;
    let transaction = begin(&connection).await;
    let reader = transaction.begin_with_config(None, Some(AccessMode::ReadOnly)).await.expect("a savepoint");
    let refused = TransactionError::from(mark(&reader, 1).await.expect_err("it only reads"));
    assert_eq!(refused.code(), Some("25006"));
    reader.rollback().await.expect("it ends");
    let reader = transaction.begin_with_config(None, Some(AccessMode::ReadOnly)).await.expect("a savepoint");
    reader.commit().await.expect("it ends");
    mark(&*transaction, 1).await.expect("the transaction writes");

    let same = TransactionOptions { isolation_level: Some(IsolationLevel::ReadCommitted), ..Default::default() };
    transaction.begin_with_options(same).await.expect("the transaction's level").commit().await.expect("it ends");
    let other = transaction
        .transaction_with_config::<_, (), DbErr>(
            |_| panic!("it does not run"),
            Some(IsolationLevel::Serializable),
            None,
        )
        .await;
    let refused = TransactionError::from(other.expect_err("another level"));
    assert_eq!(refused.code(), Some("25001"));
    mark(&*transaction, 2).await.expect("the transaction lives");
    transaction.commit().await.expect("it commits");
    assert_eq!(marks(&owner).await, [1, 2]);
}

#[tokio::test]
async fn of_random_sequences_leave_what_a_model_says() {
    sequences::leave_what_a_model_says::<SeaOrmStack>().await;
}
