//! The transaction in the hands of a handler.

use driver_suite::{Call, Service, pool, rows};
use sqlx::{Executor as _, FromRow, PgExecutor, Row as _, postgres::PgRow};
use tonic_idempotency_sqlx::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::stack::{SqlxStack, insert};

/// A row, read as `#[derive(FromRow)]` would read it.
struct Project {
    id: Uuid,
    name: String,
}

impl FromRow<'_, PgRow> for Project {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: row.try_get("id")?, name: row.try_get("name")? })
    }
}

/// A repository that takes any executor.
async fn project(executor: impl PgExecutor<'_>, id: Uuid) -> Result<Project, sqlx::Error> {
    sqlx::query_as("SELECT id, name FROM tenant.projects WHERE id = $1").bind(id).fetch_one(executor).await
}

#[tokio::test]
async fn is_a_connection_of_sqlx() {
    let database = Database::new().await;
    let service = Service::new(&database, pool::<SqlxStack>(&database, 2), |call: Call<SqlxStack>| async move {
        let mut connection = call.connection().await?;
        let id = insert(&mut connection, &call.name).await?;
        let project = project(&mut *connection, id).await.map_err(TransactionError::from)?;
        assert_eq!((project.id, project.name), (id, call.name));
        let all = connection.fetch_all("SELECT id FROM tenant.projects").await.map_err(TransactionError::from)?;
        assert_eq!(all.len(), 1);
        Ok(id)
    })
    .await;
    service.create("shop").await.expect("a call");
    assert_eq!(rows(&database.owner().await).await, [1, 1, 1]);
}
