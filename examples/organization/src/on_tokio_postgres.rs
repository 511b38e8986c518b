//! The sample on tokio-postgres: `database` and `services`.

use std::time::Duration;

use deadpool_postgres::Pool;
use tonic::service::Routes;
use tonic_idempotency::store::PostgresStore;

use crate::{
    database::{self, Database},
    driver::{ApiDatabase, Driver, set_up},
    error::Error,
    guard::Guard,
    proto::{
        api_key_service_server::ApiKeyServiceServer, cluster_service_server::ClusterServiceServer,
        invite_service_server::InviteServiceServer, namespace_service_server::NamespaceServiceServer,
        project_service_server::ProjectServiceServer,
    },
    resource_types::resource_types,
    services::{ApiKeys, Clusters, Invites, InvitesReconciler, Namespaces, Projects},
};

/// tokio-postgres with deadpool.
#[derive(Debug)]
pub struct TokioPostgres {
    database: Database,
    pools: [Pool; 2],
    store: PostgresStore,
}

impl Driver for TokioPostgres {
    type Store = PostgresStore;
    type InvitesReconciler = InvitesReconciler;

    fn new(database: &ApiDatabase, commit_delay: Duration) -> Result<Self, Error> {
        // Two pools, so that slow handlers, each on a connection, do not keep the store from its own.
        let pools = [database::pool(&database.url)?, database::pool(&database.url)?];
        let [store_pool, handler_pool] = pools.clone();
        let store = PostgresStore::new(store_pool, resource_types());
        Ok(Self { database: Database::new(handler_pool, commit_delay).pooled(database.is_pooled), pools, store })
    }

    async fn store(&self, max_batch: Option<u16>) -> Result<PostgresStore, Error> {
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
        self.pools.iter().for_each(Pool::close);
    }
}
