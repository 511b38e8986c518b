//! Round trips to PostgreSQL of whole calls, compared with the same handler without the layer.

use driver_suite::{
    Call, RoundTrips, Service,
    round_trips::{self, Expected},
};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement, TransactionError as ClosureError,
    TransactionTrait,
};
use tonic_idempotency_sea_orm::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::stack::{Pool, SeaOrmStack, insert};

const EXPECTED: Expected = Expected {
    bare: 5,           // ping, BEGIN, the user, insert, COMMIT
    user: 1,           // set_config
    keyed: 5,          // BEGIN, claim, insert, record, COMMIT
    replayed: 4,       // BEGIN, claim, the record of a key that is not free, ROLLBACK
    without_key: 5,    // BEGIN, the user, insert, a look, COMMIT
    with_savepoint: 6, // BEGIN, claim, savepoint, insert, record, COMMIT
    final_error: 7,    // BEGIN, claim, savepoint, insert, ROLLBACK TO, record, COMMIT
    returned: 1,       // ping
};

/// The handler with sea-orm alone.
async fn bare(database: &DatabaseConnection, user: Uuid) -> Result<Uuid, DbErr> {
    let transaction = database.begin().await?;
    let set = "SELECT set_config('app.current_user_id', $1, true)";
    let set = Statement::from_sql_and_values(DbBackend::Postgres, set, [user.to_string().into()]);
    transaction.execute_raw(set).await?;
    let project = insert(&transaction, "bare").await?;
    transaction.commit().await?;
    Ok(project)
}

#[tokio::test]
async fn are_at_most_one_more_than_those_of_the_handler_alone() {
    let bare = async |pool: &Pool, user| {
        bare(&pool.0, user).await.expect("a project");
    };
    round_trips::are_at_most_one_more_than_those_of_the_handler_alone::<SeaOrmStack>(EXPECTED, bare).await;
}

#[tokio::test]
async fn are_more_with_final_errors() {
    round_trips::are_more_with_final_errors::<SeaOrmStack>(EXPECTED).await;
}

/// A repository with transactions of its own.
async fn nested<C: ConnectionTrait + TransactionTrait>(to: &C) -> Result<Uuid, DbErr> {
    let project = to.transaction(|inner| Box::pin(async move { insert(inner, "nested").await })).await;
    let project = project.map_err(|error| match error {
        ClosureError::Connection(error) | ClosureError::Transaction(error) => error,
    })?;
    drop(to.begin().await?);
    insert(to, "after a dropped one").await?;
    Ok(project)
}

#[tokio::test]
async fn of_nested_transactions_are_those_of_sea_orm() {
    let database = Database::new().await;
    let mut count = RoundTrips::<SeaOrmStack>::new(&database).await;
    let pool = count.pool.clone();
    let service = Service::new(&database, pool.clone(), |call: Call<SeaOrmStack>| async move {
        Ok(nested(&call.transaction()).await.map_err(TransactionError::from)?)
    })
    .await;
    let user = service.user.expect("a user");
    let bare = async || -> Result<(), DbErr> {
        let transaction = pool.0.begin().await?;
        let set = "SELECT set_config('app.current_user_id', $1, true)";
        let set = Statement::from_sql_and_values(DbBackend::Postgres, set, [user.to_string().into()]);
        transaction.execute_raw(set).await?;
        nested(&transaction).await?;
        transaction.commit().await
    };
    bare().await.expect("projects");
    service.with_new_key().create("shop").await.expect("a call");
    count.take().await;
    bare().await.expect("projects");
    let bare = count.take().await;
    service.create("shop").await.expect("a call");
    assert_eq!(count.take().await, bare, "claim and record for ping and the user");
}
