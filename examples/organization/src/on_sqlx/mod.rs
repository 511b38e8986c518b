//! The sample on sqlx. Each file beside `database`, `failure` and `query` is the twin of one in `services`.

mod api_keys;
mod clusters;
mod database;
mod failure;
mod invites;
mod namespaces;
mod projects;
mod query;

use std::time::{Duration, SystemTime};

use prost_types::Timestamp;
use sqlx::{PgPool, Row as _, postgres::PgRow, types::time::OffsetDateTime};
use tonic::service::Routes;
use tonic_idempotency_sqlx::SqlxStore;
use uuid::Uuid;

pub use self::database::sqlx_pool;
use self::{
    api_keys::ApiKeys,
    clusters::Clusters,
    database::Database,
    invites::{Invites, InvitesReconciler},
    namespaces::Namespaces,
    projects::Projects,
};
use crate::{
    driver::{ApiDatabase, Driver, set_up},
    proto::{
        api_key_service_server::ApiKeyServiceServer, cluster_service_server::ClusterServiceServer,
        invite_service_server::InviteServiceServer, namespace_service_server::NamespaceServiceServer,
        project_service_server::ProjectServiceServer,
    },
    resource_types::resource_types,
    run::Error,
    server::Guard,
};

/// sqlx, with its pool.
#[derive(Debug)]
pub(crate) struct Sqlx {
    database: Database,
    pools: [PgPool; 2],
    store: SqlxStore,
}

impl Driver for Sqlx {
    type Store = SqlxStore;
    type InvitesReconciler = InvitesReconciler;

    fn new(database: &ApiDatabase, commit_delay: Duration) -> Result<Self, Error> {
        // Two pools, so that slow handlers, each on a connection, do not keep the store from its own.
        let pools = [sqlx_pool(database)?, sqlx_pool(database)?];
        let [store_pool, handler_pool] = pools.clone();
        let store = SqlxStore::new(store_pool, resource_types());
        Ok(Self { database: Database::new(handler_pool, commit_delay, database.is_pooled), pools, store })
    }

    async fn store(&self, max_batch: Option<u16>) -> Result<SqlxStore, Error> {
        set_up(self.store.clone(), max_batch).await
    }

    fn invites_reconciler(&self) -> InvitesReconciler {
        InvitesReconciler::new(self.database.clone())
    }

    fn services(&self, guard: &Guard) -> Routes {
        Routes::default()
            .add_service(guard.around(ApiKeyServiceServer::new(ApiKeys::new(self.database.clone()))))
            .add_service(guard.around(ClusterServiceServer::new(Clusters::new(self.database.clone()))))
            .add_service(guard.around(InviteServiceServer::new(Invites::new(self.database.clone()))))
            .add_service(guard.around(NamespaceServiceServer::new(Namespaces::new(self.database.clone()))))
            .add_service(guard.around(ProjectServiceServer::new(Projects::new(self.database.clone()))))
    }

    async fn close(&self) {
        let [store, handlers] = &self.pools;
        tokio::join!(store.close(), handlers.close());
    }
}

/// Returns a column that holds an id, as text.
fn id(row: &PgRow, name: &str) -> Result<String, sqlx::Error> {
    Ok(row.try_get::<Uuid, _>(name)?.to_string())
}

/// Returns the column `created`.
fn created(row: &PgRow) -> Result<Option<Timestamp>, sqlx::Error> {
    timestamp(row, "created")
}

/// Returns a column that holds a time.
fn timestamp(row: &PgRow, name: &str) -> Result<Option<Timestamp>, sqlx::Error> {
    Ok(Some(SystemTime::from(row.try_get::<OffsetDateTime, _>(name)?).into()))
}
