//! The handler on tokio-postgres and deadpool: that of all contenders.

use deadpool_postgres::Pool;
use http::Extensions;
use tonic::Status;
use tonic_idempotency::{
    Execution, Transaction,
    store::{PostgresStore, Store},
};
use uuid::Uuid;

use super::service::Handler;
use crate::{
    database::handler::{self, Projects},
    error::Error,
};

impl Handler for Pool {
    fn store(&self) -> Result<impl Store + Clone, Error> {
        Ok(PostgresStore::new(self.clone(), organization::resource_types()))
    }

    async fn insert(&self, user: Uuid, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        Projects::new(self.clone()).insert(&Execution::default(), user, cluster, &name).await
    }

    async fn insert_in(call: &Extensions, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        handler::insert_in(&Transaction::from_extensions(call)?, cluster, &name).await
    }
}
