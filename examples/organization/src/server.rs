//! How the idempotency layer is put around the services. This is all there is to it.

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::net::TcpListener;
use tonic::{
    service::{Routes, interceptor::InterceptedService},
    transport::{Server, server::TcpIncoming},
};
use tonic_idempotency::{IdempotencyLayer, PostgresStore, ResourceTypes, Sweeper, Sweeping};
use tower_layer::Layer;

use crate::{
    FILE_DESCRIPTOR_SET,
    auth::Authentication,
    database::{self, Database},
    proto::{
        api_key_service_server::ApiKeyServiceServer, cluster_service_server::ClusterServiceServer,
        invite_service_server::InviteServiceServer, namespace_service_server::NamespaceServiceServer,
        project_service_server::ProjectServiceServer,
    },
    run::Error,
    services::{ApiKeys, Clusters, Invites, Namespaces, Projects},
    signals::Signals,
};

/// The five services behind authentication and idempotency; health and reflection in front of both.
#[derive(Debug)]
pub(crate) struct Service {
    idempotency: IdempotencyLayer,
    pools: [Pool; 2],
    routes: Routes,
    sweeping: Sweeping,
}

impl Service {
    /// The services on this database. A create call waits for `handler_delay` before it commits.
    pub(crate) async fn new(
        database_url: &str,
        authentication: Authentication,
        handler_delay: Duration,
    ) -> Result<Self, Error> {
        // Two pools, so that slow handlers, each on a connection, do not keep the store from its own.
        let pools = [database::pool(database_url)?, database::pool(database_url)?];
        let [store_pool, handler_pool] = pools.clone();

        let store = PostgresStore::new(store_pool, ResourceTypes::organization());
        let idempotency = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store.clone()).build()?;
        let sweeping = Sweeper::new(store).spawn();

        // A call first meets authentication, which says who it is, then idempotency, then the handler.
        let guard = Guard { authentication, idempotency: idempotency.clone() };
        let database = Database::new(handler_pool, handler_delay);
        let routes = Routes::default()
            .add_service(guard.around(ApiKeyServiceServer::new(ApiKeys::new(database.clone()))))
            .add_service(guard.around(ClusterServiceServer::new(Clusters::new(database.clone()))))
            .add_service(guard.around(InviteServiceServer::new(Invites::new(database.clone()))))
            .add_service(guard.around(NamespaceServiceServer::new(Namespaces::new(database.clone()))))
            .add_service(guard.around(ProjectServiceServer::new(Projects::new(database))));
        let routes = add_public(routes).await?;
        Ok(Self { idempotency, pools, routes, sweeping })
    }

    /// Serves until the first signal, and the calls that run then to their end.
    pub(crate) async fn serve(&self, listener: TcpListener, signals: Signals) -> Result<(), Error> {
        Server::builder()
            .add_routes(self.routes.clone())
            .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), async move {
                signals.first().await;
            })
            .await?;
        Ok(())
    }

    /// Waits, at most that long, for the calls whose clients have hung up: they run to their end. Then stops the rest.
    pub(crate) async fn stop(self, at_most: Duration) {
        let drained = self.idempotency.drain(at_most).await;
        if drained.left > 0 {
            tracing::warn!(calls = drained.left, "calls were cut off");
        }
        self.sweeping.stop().await;
        self.pools.iter().for_each(Pool::close);
    }
}

/// What stands in front of a handler.
struct Guard {
    authentication: Authentication,
    idempotency: IdempotencyLayer,
}

impl Guard {
    fn around<S>(&self, service: S) -> InterceptedService<<IdempotencyLayer as Layer<S>>::Service, Authentication>
    where
        IdempotencyLayer: Layer<S>,
    {
        InterceptedService::new(self.idempotency.layer(service), self.authentication.clone())
    }
}

/// Health and reflection, which need no token.
async fn add_public(routes: Routes) -> Result<Routes, Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<ApiKeyServiceServer<ApiKeys>>().await;
    health.set_serving::<ClusterServiceServer<Clusters>>().await;
    health.set_serving::<InviteServiceServer<Invites>>().await;
    health.set_serving::<NamespaceServiceServer<Namespaces>>().await;
    health.set_serving::<ProjectServiceServer<Projects>>().await;

    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // The details of errors, without which grpcurl cannot show them.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(routes
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?))
}
