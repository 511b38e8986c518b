//! Savepoints, which are sqlx's own transactions inside of the call's.

use sqlx::{Connection as _, Executor as _, PgConnection, Postgres};
use tonic::Status;
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_sqlx::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::harness::{Call, Service, all_have_ended, assert_clean, insert, names, pool, reason, rows};

/// A repository that has a transaction of its own, on whatever it is given.
async fn insert_twice(to: impl sqlx::Acquire<'_, Database = Postgres>, name: &str) -> Result<Uuid, TransactionError> {
    let mut transaction = sqlx::Acquire::begin(to).await?;
    let project = insert(&mut transaction, name).await?;
    insert(&mut transaction, name).await?;
    transaction.commit().await?;
    Ok(project)
}

async fn steps(connection: &mut PgConnection) -> Result<Uuid, TransactionError> {
    let mut kept = connection.begin().await?;
    let project = insert(&mut kept, "kept").await?;
    kept.commit().await?;

    let mut undone = connection.begin().await?;
    insert(&mut undone, "undone").await?;
    undone.rollback().await?;

    let mut failed = connection.begin().await?;
    insert(&mut failed, "failed").await?;
    failed.execute("SELECT 1 / 0").await.expect_err("a division by zero");
    failed.commit().await.expect_err("it has failed");

    let mut outer = connection.begin().await?;
    insert(&mut outer, "outer").await?;
    {
        let mut dropped = outer.begin().await?;
        insert(&mut dropped, "dropped").await?;
    }
    outer.commit().await?;

    insert_twice(&mut *connection, "twice").await?;
    connection.transaction(|inner| Box::pin(async move { insert(inner, "in a closure").await.map(drop) })).await?;

    let mut dropped = connection.begin().await?;
    insert(&mut dropped, "dropped at the end").await?;
    Ok(project)
}

#[tokio::test]
async fn are_kept_or_rolled_back_alone() {
    let database = Database::new().await;
    let pool = pool(&database, 1);
    let service =
        Service::new(
            &database,
            pool.clone(),
            |call: Call| async move { Ok(steps(&mut *call.connection().await?).await?) },
        )
        .await;
    let owner = database.owner().await;
    for (key, calls) in [(service.key, 1), (None, 2)] {
        service.with_key(key).create("shop").await.expect("a call");
        let mut expected: Vec<_> = ["in a closure", "kept", "outer", "twice", "twice"]
            .iter()
            .flat_map(|name| std::iter::repeat_n(*name, calls))
            .collect();
        expected.sort_unstable();
        assert_eq!(names(&owner).await, expected);
    }
    all_have_ended(&owner).await;
    assert_clean(&pool).await;
}

/// The depth that sqlx counts is that of a call, and not of another one before it on the connection.
#[tokio::test]
async fn one_that_is_never_dropped_is_committed_and_its_connection_replaced() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool(&database, 1);
    let service = Service::new(&database, pool.clone(), |call: Call| async move {
        let mut connection = call.connection().await?;
        let mut leaked = connection.begin().await.map_err(TransactionError::from)?;
        let project = insert(&mut leaked, &call.name).await?;
        std::mem::forget(leaked);
        if call.name == "fail" { Err(Status::not_found("not now")) } else { Ok(project) }
    })
    .await;
    for key in [service.key, None] {
        service.with_key(key).create("fail").await.expect_err("it fails");
        all_have_ended(&owner).await;
        assert_clean(&pool).await;
        service.with_key(key).create("shop").await.expect("a call");
        all_have_ended(&owner).await;
        assert_clean(&pool).await;
    }
    assert_eq!(names(&owner).await, ["shop", "shop"]);
}

/// A savepoint cannot be set after a failed statement.
#[tokio::test]
async fn one_that_cannot_be_set_does_not_hide_that_the_transaction_has_failed() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, pool(&database, 1), |call: Call| async move {
        let mut connection = call.connection().await?;
        let project = insert(&mut connection, &call.name).await?;
        connection.execute("SELECT 1 / 0").await.expect_err("a division by zero");
        connection.begin().await.map(drop).expect_err("the transaction has failed");
        Ok(project)
    })
    .await;
    assert_eq!(reason(service.create("shop").await), Reason::NotCommitted);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}
