//! Transactions without a call: `Transaction::begin`.

use http::Extensions;
use tonic::Code;
use tonic_idempotency::store::{CallSession, StoreErrorKind, TransactionErrorKind, driver::Owned};
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::{DEADLOCK, SERIALIZATION_FAILURE, Stack, all_have_ended, assert_clean, handle::late, pool, rows, status};

/// A handler that is called without the layer, as a cron job calls it.
async fn handler<S: Stack>(extensions: &Extensions) -> Result<Uuid, S::Error> {
    S::insert(&mut S::connection(&S::transaction(extensions)?).await?, "direct").await
}

/// Begins a transaction of a user of the organisation.
async fn begin<S: Stack>(database: &Database, pool: &S::Pool) -> Owned<S::Transaction> {
    let session = CallSession { user: Some(database.user().await.id), settings: None };
    S::begin(pool, &session).await.expect("a transaction")
}

/// The connection of such a transaction.
async fn connection<S: Stack>(transaction: &Owned<S::Transaction>) -> S::Connection {
    S::connection(transaction).await.expect("the connection")
}

pub async fn are_committed_by_their_owner<S: Stack>() {
    let database = Database::new().await;
    let pool = pool::<S>(&database, 1);
    let transaction = begin::<S>(&database, &pool).await;
    let mut extensions = Extensions::new();
    transaction.hand_out(&mut extensions);
    handler::<S>(&extensions).await.expect("a project");
    let leaked = S::Transaction::clone(&transaction);
    transaction.commit().await.expect("a commit");
    assert_eq!(rows(&database.owner().await).await, [1, 1, 0], "a project, its work, and no record");
    assert_eq!(S::kind(&late::<S>(&leaked).await), TransactionErrorKind::Ended);
    assert_clean::<S>(&pool).await;
}

pub async fn are_rolled_back_if_dropped_or_told_to<S: Stack>() {
    let database = Database::new().await;
    let pool = pool::<S>(&database, 1);
    for dropped in [true, false] {
        let transaction = begin::<S>(&database, &pool).await;
        S::insert(&mut connection::<S>(&transaction).await, "gone").await.expect("a project");
        if dropped {
            drop(transaction)
        } else {
            transaction.roll_back().await
        }
        all_have_ended(&database.owner().await).await;
    }
    assert_eq!(rows(&database.owner().await).await, [0, 0, 0]);
    assert_clean::<S>(&pool).await;
}

pub async fn without_a_user_see_no_users_rows<S: Stack>() {
    let database = Database::new().await;
    let transaction = S::begin(&pool::<S>(&database, 1), &CallSession::default()).await.expect("a transaction");
    let error = S::insert(&mut connection::<S>(&transaction).await, "nobody's").await;
    assert_eq!(status(error.expect_err("row-level security")).code(), Code::Internal);
}

pub async fn do_not_commit_if_a_statement_has_failed_or_lost<S: Stack>() {
    let database = Database::new().await;
    let pool = pool::<S>(&database, 1);
    for (statement, noted, kinds) in [
        ("SELECT 1 / 0", true, &[StoreErrorKind::Refused][..]),
        (DEADLOCK, true, &[StoreErrorKind::Conflict]),
        (SERIALIZATION_FAILURE, true, &[StoreErrorKind::Conflict]),
        // A driver may not see it.
        (DEADLOCK, false, &[StoreErrorKind::Conflict, StoreErrorKind::Refused]),
    ] {
        let transaction = begin::<S>(&database, &pool).await;
        {
            let mut connection = connection::<S>(&transaction).await;
            S::insert(&mut connection, "gone").await.expect("a project");
            let failed = S::execute(&mut connection, statement).await.expect_err("a failure");
            if noted {
                S::note(&transaction, &failed);
            }
        }
        let kind = transaction.commit().await.expect_err("a failure").kind();
        assert!(kinds.contains(&kind), "{kind:?}");
        assert_eq!(rows(&database.owner().await).await, [0, 0, 0]);
    }
}
