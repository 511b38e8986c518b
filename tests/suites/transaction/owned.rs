//! Transactions without a call: `Transaction::begin`.

use tonic::{Code, Request, Status};
use tonic_idempotency::{
    Transaction,
    store::{CallSession, OwnedTransaction, StoreErrorKind, TransactionErrorKind},
};
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::{
    connections::assert_clean,
    harness::{all_have_ended, insert, rows},
};

/// A handler that is called without the layer, as a cron job calls it.
async fn handler(request: Request<()>) -> Result<Uuid, Status> {
    insert(&Transaction::from_request(&request)?, "direct").await
}

/// Begins a transaction of a user of the organisation.
async fn begin(database: &Database, pool: &deadpool_postgres::Pool) -> OwnedTransaction {
    let session = CallSession { user: Some(database.user().await.id), settings: None };
    Transaction::begin_for(pool, &session).await.expect("a transaction")
}

#[tokio::test]
async fn are_committed_by_their_owner() {
    let database = Database::new().await;
    let pool = database.pool(1);
    let transaction = begin(&database, &pool).await;
    let mut request = Request::new(());
    transaction.hand_out(request.extensions_mut());
    handler(request).await.expect("a project");
    let leaked = Transaction::clone(&transaction);
    transaction.commit().await.expect("a commit");
    assert_eq!(rows(&database.owner().await).await, [1, 1, 0], "a project, its work, and no record");
    let late = leaked.execute("SELECT 1", &[]).await.expect_err("the transaction has ended");
    assert_eq!(late.kind(), TransactionErrorKind::Ended);
    assert_clean(&pool).await;
}

#[tokio::test]
async fn are_rolled_back_if_dropped_or_told_to() {
    let database = Database::new().await;
    let pool = database.pool(1);
    for dropped in [true, false] {
        let transaction = begin(&database, &pool).await;
        insert(&transaction, "gone").await.expect("a project");
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
    let transaction = Transaction::begin(&database.pool(1)).await.expect("a transaction");
    let error = insert(&transaction, "nobody's").await.expect_err("row-level security");
    assert_eq!(error.code(), Code::Internal);
}

#[tokio::test]
async fn say_so_if_they_have_lost_against_another_transaction() {
    const LOSE: &str = "DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'serialization_failure'; END $$";
    let database = Database::new().await;
    let transaction = begin(&database, &database.pool(1)).await;
    transaction.batch_execute(LOSE).await.expect_err("a conflict");
    assert_eq!(transaction.commit().await.expect_err("a conflict").kind(), StoreErrorKind::Conflict);
}

#[tokio::test]
async fn do_not_commit_if_a_statement_has_failed() {
    let database = Database::new().await;
    let transaction = begin(&database, &database.pool(1)).await;
    insert(&transaction, "gone").await.expect("a project");
    transaction.batch_execute("SELECT 1 / 0").await.expect_err("a failure");
    assert_eq!(transaction.commit().await.expect_err("a failure").kind(), StoreErrorKind::Refused);
    assert_eq!(rows(&database.owner().await).await, [0, 0, 0]);
}
