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
        Ok(PostgresStore::new(self.pool.clone(), organization::resource_types()).prepared_statements())
    }

    async fn insert(&self, user: Uuid, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        let mut connection = self.pool.get().await.map_err(failed)?;
        let transaction = connection.transaction().await.map_err(failed)?;
        transaction.query_typed(SET_USER, &[(&user.to_string(), Type::TEXT)]).await.map_err(failed)?;
        let inserted = transaction.query_typed(INSERT, &[(&cluster, Type::UUID), (&name, Type::TEXT)]).await;
        let id = inserted.map_err(failed)?.first().ok_or_else(|| failed("no row"))?.get(0);
        transaction.commit().await.map_err(failed)?;
        Ok(id)
    }

    async fn insert_in(call: &Extensions, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        let transaction = Transaction::from_extensions(call)?;
        let row = transaction.query_typed_one(INSERT, &[(&cluster, Type::UUID), (&name, Type::TEXT)]).await?;
        Ok(row.get(0))
    }
}
