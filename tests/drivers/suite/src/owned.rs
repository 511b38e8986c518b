//! Transactions without a call: `Transaction::begin_on`.

use http::Extensions;
use tonic::Code;
use tonic_idempotency::{
    migrations,
    store::{CallSession, Schema, StoreErrorKind, TransactionErrorKind, driver::Owned},
};
use tonic_idempotency_tests::{API_ROLE, Database, migrate};
use uuid::Uuid;

use crate::{
    DEADLOCK, SERIALIZATION_FAILURE, Stack, all_have_ended, assert_clean, handle::late, in_use, patient, pool, rows,
    status,
};

/// A handler that is called without the layer, as a cron job calls it.
async fn handler<S: Stack>(extensions: &Extensions) -> Result<Uuid, S::Error> {
    S::insert(&mut S::connection(&S::transaction(extensions)?).await?, "direct").await
}

/// Begins a transaction of a user of the organisation.
async fn begin<S: Stack>(database: &Database, pool: &S::Pool) -> Owned<S::Transaction> {
    let session = CallSession { user: Some(database.user().await.id), settings: None };
    S::begin(&patient::<S>(pool.clone()), &session).await.expect("a transaction")
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
    let store = patient::<S>(pool::<S>(&database, 1));
    let transaction = S::begin(&store, &CallSession::default()).await.expect("a transaction");
    let error = S::insert(&mut connection::<S>(&transaction).await, "nobody's").await;
    assert_eq!(status(error.expect_err("row-level security")).code(), Code::Internal);
}

/// The functions of the default schema are not there.
pub async fn are_begun_in_the_schema_of_the_store<S: Stack>() {
    let database = Database::new().await;
    let mut owner = database.owner().await;
    let schema = Schema::new("billing").expect("a name");
    migrate(&mut owner, &schema).await;
    migrations::grant(&owner, &schema, API_ROLE).await.expect("the grant");
    let away = "DROP FUNCTION tenant.idempotency_limit_idle(double precision)";
    owner.batch_execute(away).await.expect("it is gone");
    let store = patient::<S>(pool::<S>(&database, 1));
    let session = CallSession { user: Some(database.user().await.id), settings: None };
    let refused = S::begin(&store, &session).await.map(drop).expect_err("no function");
    assert_eq!(refused.kind(), StoreErrorKind::Refused);
    let transaction = S::begin(&store.schema(schema), &session).await.expect("a transaction");
    S::insert(&mut connection::<S>(&transaction).await, "direct").await.expect("a project");
    transaction.commit().await.expect("a commit");
    assert_eq!(rows(&owner).await, [1, 1, 0]);
}

pub async fn are_begun_in_the_transaction_pool_of_the_store<S: Stack>() {
    let database = Database::new().await;
    let [shared, own] = [pool::<S>(&database, 1), pool::<S>(&database, 1)];
    let store = patient::<S>(shared.clone()).transaction_pool(own.clone());
    let transaction = S::begin(&store, &CallSession::default()).await.expect("a transaction");
    assert_eq!([in_use::<S>(&shared), in_use::<S>(&own)], [0, 1]);
    transaction.roll_back().await;
    assert_clean::<S>(&own).await;
}

pub async fn do_not_commit_if_a_statement_has_failed_or_lost<S: Stack>() {
    const FAILS: &str = "SELECT 1 / 0";

    let database = Database::new().await;
    let pool = pool::<S>(&database, 1);
    let statements = [FAILS, DEADLOCK, SERIALIZATION_FAILURE];
    for (statement, is_noted) in statements.into_iter().flat_map(|statement| [(statement, true), (statement, false)]) {
        let transaction = begin::<S>(&database, &pool).await;
        {
            let mut connection = connection::<S>(&transaction).await;
            S::insert(&mut connection, "gone").await.expect("a project");
            let failed = S::execute(&mut connection, statement).await.expect_err("a failure");
            if is_noted {
                S::note(&transaction, &failed);
            }
        }
        let kind = transaction.commit().await.expect_err("a failure").kind();
        let is_conflict = statement != FAILS && (is_noted || S::NOTICED.contains(&statement));
        let expected = if is_conflict { StoreErrorKind::Conflict } else { StoreErrorKind::Refused };
        assert_eq!(kind, expected, "{statement}, noted: {is_noted}");
        assert_eq!(rows(&database.owner().await).await, [0, 0, 0]);
    }
}
