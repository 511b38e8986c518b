//! The handler on tokio-postgres and deadpool.

use deadpool_postgres::Pool;
use http::Extensions;
use tokio_postgres::types::Type;
use tonic::Status;
use tonic_idempotency::{
    Transaction,
    store::{PostgresStore, Store},
};
use uuid::Uuid;

use super::service::{Handler, INSERT, SET_USER, failed};
use crate::Error;

#[derive(Clone)]
pub(super) struct Projects {
    pool: Pool,
}

impl Projects {
    pub(super) fn new(pool: Pool) -> Self {
        Self { pool }
    }
}

impl Handler for Projects {
    fn store(&self) -> Result<impl Store + Clone, Error> {
        Ok(PostgresStore::new(self.pool.clone(), organization::resource_types()))
    }

    async fn insert(&self, user: Uuid, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        let mut connection = self.pool.get().await.map_err(failed)?;
        let transaction = connection.transaction().await.map_err(failed)?;
        let set_user = transaction.prepare_typed_cached(SET_USER, &[Type::TEXT]).await.map_err(failed)?;
        transaction.query(&set_user, &[&user.to_string()]).await.map_err(failed)?;
        let insert = transaction.prepare_typed_cached(INSERT, &[Type::UUID, Type::TEXT]).await.map_err(failed)?;
        let id = transaction.query_one(&insert, &[&cluster, &name]).await.map_err(failed)?.get(0);
        transaction.commit().await.map_err(failed)?;
        Ok(id)
    }

    async fn insert_in(call: &Extensions, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        let transaction = Transaction::from_extensions(call)?;
        let insert = transaction.prepare_cached(INSERT).await?;
        let row = transaction.query_one(&insert, &[&cluster, &name]).await?;
        Ok(row.get(0))
    }
}
