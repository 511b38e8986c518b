//! Round trips to PostgreSQL of nested transactions.

use driver_suite::{Call, RoundTrips, Service};
use sea_orm::{ConnectionTrait, DbErr, TransactionError as ClosureError, TransactionTrait};
use tonic_idempotency_sea_orm::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::stack::{SeaOrmStack, insert, set_user};

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
        set_user(&transaction, user).await?;
        nested(&transaction).await?;
        transaction.commit().await
    };
    bare().await.expect("projects");
    service.with_new_key().create("shop").await.expect("a call");
    let bare = count.of(async || bare().await.expect("projects")).await;
    let keyed = count.of(async || drop(service.with_new_key().create("shop").await.expect("a call"))).await;
    assert_eq!(keyed, bare, "claim and record for ping and the user");
}
