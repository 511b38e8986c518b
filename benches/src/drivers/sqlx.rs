//! The handler on sqlx.

use http::Extensions;
use sqlx::{Executor as _, PgConnection, PgPool, postgres::PgPoolOptions};
use tonic::Status;
use tonic_idempotency::store::Store;
use tonic_idempotency_sqlx::{SqlxStore, Transaction, TransactionError};
use uuid::Uuid;

use super::service::{CONNECTIONS, Handler, SET_ROLE, failed};
use crate::{
    database::handler::{INSERT, SET_USER},
    error::Error,
};

#[derive(Clone)]
pub(super) struct Projects {
    pool: PgPool,
}

impl Projects {
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        let pool = PgPoolOptions::new()
            .max_connections(u32::try_from(CONNECTIONS)?)
            .after_connect(|connection, _| Box::pin(async move { connection.execute(SET_ROLE).await.map(drop) }))
            .connect_lazy_with(tonic_idempotency_sqlx::options(url)?);
        Ok(Self { pool })
    }
}

impl Handler for Projects {
    fn store(&self) -> Result<impl Store + Clone, Error> {
        Ok(SqlxStore::new(self.pool.clone(), organization::resource_types()))
    }

    async fn insert(&self, user: Uuid, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        sqlx::query(SET_USER).bind(user.to_string()).execute(&mut *transaction).await.map_err(failed)?;
        let project = insert(&mut transaction, cluster, &name).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        Ok(project)
    }

    async fn insert_in(call: &Extensions, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        let mut connection = Transaction::from_extensions(call)?.connection().await?;
        Ok(insert(&mut connection, cluster, &name).await.map_err(TransactionError::from)?)
    }
}

async fn insert(connection: &mut PgConnection, cluster: Uuid, name: &str) -> sqlx::Result<Uuid> {
    sqlx::query_scalar(INSERT).bind(cluster).bind(name).fetch_one(connection).await
}
