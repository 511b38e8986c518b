//! Transactions without a call: `Transaction::begin`.

use sqlx::{Executor as _, PgPool};
use tonic::{Code, Request, Status};
use tonic_idempotency::store::{CallSession, StoreErrorKind, TransactionErrorKind};
use tonic_idempotency_sqlx::{OwnedTransaction, Transaction};
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::harness::{LOSE, all_have_ended, assert_clean, insert, pool, rows};

/// A handler that is called without the layer, as a cron job calls it.
async fn handler(request: Request<()>) -> Result<Uuid, Status> {
    Ok(insert(&mut *Transaction::from_request(&request)?.connection().await?, "direct").await?)
}

/// Begins a transaction of a user of the organisation.
async fn begin(database: &Database, pool: &PgPool) -> OwnedTransaction {
    let session = CallSession { user: Some(database.user().await.id), settings: None };
    Transaction::begin_for(pool, &session).await.expect("a transaction")
}

#[tokio::test]
async fn are_committed_by_their_owner() {
    let database = Database::new().await;
    let pool = pool(&database, 1);
    let transaction = begin(&database, &pool).await;
    let mut request = Request::new(());
    transaction.hand_out(request.extensions_mut());
    handler(request).await.expect("a project");
    let leaked = Transaction::clone(&transaction);
    transaction.commit().await.expect("a commit");
    assert_eq!(rows(&database.owner().await).await, [1, 1, 0], "a project, its work, and no record");
    let late = leaked.connection().await.map(drop).expect_err("the transaction has ended");
    assert_eq!(late.kind(), TransactionErrorKind::Ended);
    assert_clean(&pool).await;
}

#[tokio::test]
async fn are_rolled_back_if_dropped_or_told_to() {
    let database = Database::new().await;
    let pool = pool(&database, 1);
    for dropped in [true, false] {
        let transaction = begin(&database, &pool).await;
        insert(&mut transaction.connection().await.expect("the connection"), "gone").await.expect("a project");
        if dropped {
            drop(transaction)
        } else {
            transaction.roll_back().await
        }
        all_have_ended(&database.owner().await).await;
    }
    assert_eq!(rows(&database.owner().await).await, [0, 0, 0]);
    assert_clean(&pool).await;
}

#[tokio::test]
async fn without_a_user_see_no_users_rows() {
    let database = Database::new().await;
    let transaction = Transaction::begin(&pool(&database, 1)).await.expect("a transaction");
    let error = insert(&mut transaction.connection().await.expect("the connection"), "nobody's").await;
    assert_eq!(Status::from(error.expect_err("row-level security")).code(), Code::Internal);
}

#[tokio::test]
async fn do_not_commit_if_a_statement_has_failed_or_lost() {
    let database = Database::new().await;
    let pool = pool(&database, 1);
    for (statement, noted, kind) in [
        ("SELECT 1 / 0", true, StoreErrorKind::Refused),
        (LOSE, false, StoreErrorKind::Refused),
        (LOSE, true, StoreErrorKind::Conflict),
    ] {
        let transaction = begin(&database, &pool).await;
        {
            let mut connection = transaction.connection().await.expect("the connection");
            insert(&mut connection, "gone").await.expect("a project");
            let failed = connection.execute(statement).await.expect_err("a failure");
            if noted {
                transaction.note(&failed);
            }
        }
        assert_eq!(transaction.commit().await.expect_err("a failure").kind(), kind);
        assert_eq!(rows(&database.owner().await).await, [0, 0, 0]);
    }
}
