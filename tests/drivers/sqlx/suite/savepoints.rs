//! sqlx's own ways to a transaction, inside of the call's.

use driver_suite::{Call, Service, all_have_ended, assert_clean, names, pool};
use sqlx::{Connection as _, PgConnection, Postgres};
use tonic_idempotency_sqlx::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::stack::{SqlxStack, insert};

/// A repository that has a transaction of its own, on whatever it is given.
async fn insert_twice(to: impl sqlx::Acquire<'_, Database = Postgres>, name: &str) -> Result<Uuid, TransactionError> {
    let mut transaction = sqlx::Acquire::begin(to).await?;
    let project = insert(&mut transaction, name).await?;
    insert(&mut transaction, name).await?;
    transaction.commit().await?;
    Ok(project)
}

async fn steps(connection: &mut PgConnection) -> Result<Uuid, TransactionError> {
    let project = insert_twice(&mut *connection, "twice").await?;
    connection.transaction(|inner| Box::pin(async move { insert(inner, "in a closure").await.map(drop) })).await?;
    let fails = connection.transaction(|inner| {
        Box::pin(async move {
            insert(inner, "undone").await?;
            Err::<(), _>(sqlx::Error::RowNotFound.into())
        })
    });
    fails.await.map_err(|error: TransactionError| error.kind()).expect_err("it fails");
    Ok(project)
}

#[tokio::test]
async fn are_acquired_from_the_connection_or_have_a_closure() {
    let database = Database::new().await;
    let pool = pool::<SqlxStack>(&database, 1);
    let script = |call: Call<SqlxStack>| async move { Ok(steps(&mut *call.connection().await?).await?) };
    let service = Service::new(&database, pool.clone(), script).await;
    let owner = database.owner().await;
    service.create("shop").await.expect("a call");
    assert_eq!(names(&owner).await, ["in a closure", "twice", "twice"]);
    service.with_key(None).create("shop").await.expect("a call");
    assert_eq!(names(&owner).await, ["in a closure", "in a closure", "twice", "twice", "twice", "twice"]);
    all_have_ended(&owner).await;
    assert_clean::<SqlxStack>(&pool).await;
}
