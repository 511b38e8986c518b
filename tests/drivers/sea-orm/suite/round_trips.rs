//! Round trips to PostgreSQL of whole calls, compared with the same handler without the layer.

use driver_suite::{Call, RoundTrips, Service};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement, TransactionError as ClosureError,
    TransactionTrait,
};
use tonic::{Code, Status};
use tonic_idempotency::policy::ProcedureBuilder;
use tonic_idempotency_sea_orm::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::stack::{SeaOrmStack, insert};

type Count = RoundTrips<SeaOrmStack>;

/// The ping of a connection that returns to the pool, which nobody waits for.
const RETURN: usize = 1;

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
    let database = Database::new().await;
    let mut count = Count::new(&database).await;
    let pool = count.pool.clone();
    let service =
        Service::new(&database, pool.clone(), |call: Call<SeaOrmStack>| async move { call.insert().await }).await;
    let user = service.user.expect("a user");
    // The statements are prepared once for each connection.
    bare(&pool.0, user).await.expect("a project");
    service.with_new_key().create("shop").await.expect("a call");
    service.with_key(None).create("shop").await.expect("a call");
    count.take().await;

    bare(&pool.0, user).await.expect("a project");
    let bare = count.take().await - RETURN;
    assert_eq!(bare, 5, "ping, BEGIN, the user, insert, COMMIT");

    service.create("shop").await.expect("a call");
    let keyed = count.take().await - RETURN;
    assert_eq!(keyed, 5, "BEGIN, claim, insert, record, COMMIT");
    let without_the_user = bare - 1;
    assert!(keyed <= without_the_user + 1, "claim and record for ping");

    service.create("shop").await.expect("a replay");
    assert!(count.take().await - RETURN <= 3, "BEGIN, claim, and ROLLBACK behind the answer");

    service.with_key(None).create("shop").await.expect("a call");
    assert_eq!(count.take().await - RETURN, 5, "BEGIN, the user, insert, a look, COMMIT");
}

#[tokio::test]
async fn are_one_more_with_final_errors() {
    let database = Database::new().await;
    let mut count = Count::new(&database).await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, count.pool.clone(), describe, |call: Call<SeaOrmStack>| async move {
        let project = call.insert().await?;
        if call.name == "final" { Err(Status::failed_precondition("never")) } else { Ok(project) }
    })
    .await;
    service.with_new_key().create("shop").await.expect("a call");
    count.take().await;
    service.create("shop").await.expect("a call");
    assert_eq!(count.take().await - RETURN, 6, "BEGIN, claim, savepoint, insert, record, COMMIT");
    service.with_new_key().create("final").await.expect_err("it fails");
    assert_eq!(count.take().await - RETURN, 7, "BEGIN, claim, savepoint, insert, ROLLBACK TO, record, COMMIT");
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
    let mut count = Count::new(&database).await;
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
