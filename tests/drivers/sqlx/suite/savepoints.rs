//! sqlx's own ways to a transaction, inside of the call's.

use std::{
    pin::{Pin, pin},
    task::{Context, Waker},
};

use driver_suite::{Call, Service, all_have_ended, assert_clean, names, pool, reason, rows};
use sqlx::{Connection as _, PgConnection, Postgres};
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_sqlx::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::stack::{SqlxStack, insert};

/// A repository that begins a transaction of its own on the handle that it is given.
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

/// Nested transactions, of which the innermost abandons a `begin`. Each is committed nevertheless.
fn go_on(
    connection: &mut PgConnection,
    depth: usize,
) -> Pin<Box<dyn Future<Output = Result<(), sqlx::Error>> + Send + '_>> {
    Box::pin(async move {
        if depth == 0 {
            // A fast server may have answered already.
            while pin!(connection.begin()).poll(&mut Context::from_waker(Waker::noop())).is_ready() {}
            return Ok(());
        }
        let mut transaction = connection.begin().await?;
        go_on(&mut transaction, depth - 1).await?;
        transaction.commit().await
    })
}

/// sqlx has rolled back those around it, or commits them.
#[tokio::test]
async fn a_call_that_goes_on_in_them_after_a_begin_was_given_up_is_refused() {
    let database = Database::new().await;
    let (owner, pool) = (database.owner().await, pool::<SqlxStack>(&database, 1));
    let service = Service::new(&database, pool.clone(), |call: Call<SqlxStack>| async move {
        let depth = call.name.parse().expect("a number");
        go_on(&mut *call.connection().await?, depth).await.map_err(TransactionError::from)?;
        Ok(Uuid::nil())
    })
    .await;
    for depth in 0..5_usize {
        for service in [service.with_new_key(), service.with_key(None)] {
            assert_eq!(reason(service.create(&depth.to_string()).await), Reason::NotCommitted, "{depth}");
            all_have_ended(&owner).await;
            assert_clean::<SqlxStack>(&pool).await;
        }
    }
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}
