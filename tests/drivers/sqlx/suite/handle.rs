//! The transaction in the hands of a handler.

use std::sync::{Arc, Mutex};

use sqlx::{Executor as _, FromRow, PgExecutor, Row as _, postgres::PgRow};
use tonic::Code;
use tonic_idempotency::{
    policy::{Mode, ProcedureBuilder},
    store::TransactionErrorKind,
};
use tonic_idempotency_sqlx::{Transaction, TransactionError};
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::harness::{Call, Service, insert, names, pool, rows};

/// What a derive makes.
struct Project {
    id: Uuid,
    name: String,
}

impl FromRow<'_, PgRow> for Project {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: row.try_get("id")?, name: row.try_get("name")? })
    }
}

/// A repository on whatever executes.
async fn project(executor: impl PgExecutor<'_>, id: Uuid) -> Result<Project, sqlx::Error> {
    sqlx::query_as("SELECT id, name FROM tenant.projects WHERE id = $1").bind(id).fetch_one(executor).await
}

#[tokio::test]
async fn is_a_connection_of_sqlx() {
    let database = Database::new().await;
    let service = Service::new(&database, pool(&database, 2), |call: Call| async move {
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

#[tokio::test]
async fn is_dead_once_the_call_has_ended() {
    for succeeds in [true, false] {
        let database = Database::new().await;
        let kept = Arc::new(Mutex::new(None::<Transaction>));
        let keep = Arc::clone(&kept);
        let service = Service::new(&database, pool(&database, 2), move |call: Call| {
            let keep = Arc::clone(&keep);
            async move {
                *keep.lock().expect("no panic") = Some(call.transaction());
                let project = call.insert().await?;
                if succeeds { Ok(project) } else { Err(tonic::Status::not_found("not now")) }
            }
        })
        .await;
        assert_eq!(service.create("shop").await.is_ok(), succeeds);
        let transaction = kept.lock().expect("no panic").take().expect("the handle");
        let dead = transaction.connection().await.map(drop).expect_err("the call has ended");
        assert_eq!(dead.kind(), TransactionErrorKind::Ended);
        assert_eq!(tonic::Status::from(dead).code(), Code::Internal);
        assert_eq!(rows(&database.owner().await).await[0], i64::from(succeeds));
    }
}

#[tokio::test]
async fn can_be_cloned_into_helpers_which_take_turns() {
    let database = Database::new().await;
    let service = Service::new(&database, pool(&database, 2), |call: Call| async move {
        let helpers: Vec<_> = (0..8)
            .map(|number| {
                let transaction = call.transaction();
                tokio::spawn(async move { insert(&mut *transaction.connection().await?, &format!("{number}")).await })
            })
            .collect();
        for helper in helpers {
            helper.await.expect("no panic")?;
        }
        call.insert().await
    })
    .await;
    service.create("shop").await.expect("a call");
    assert_eq!(names(&database.owner().await).await, ["0", "1", "2", "3", "4", "5", "6", "7", "shop"]);
}

#[tokio::test]
async fn is_missing_if_the_procedure_is_in_reserved_mode() {
    let database = Database::new().await;
    let describe = |procedure: ProcedureBuilder| procedure.mode(Mode::Reserved);
    let service = Service::with(&database, pool(&database, 2), describe, |call: Call| async move {
        let missing = call.transaction.expect_err("no transaction");
        assert_eq!(missing.kind(), TransactionErrorKind::Missing);
        Err(missing.into())
    })
    .await;
    assert_eq!(service.create("shop").await.expect_err("no transaction").code(), Code::Internal);
}
