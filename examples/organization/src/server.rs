//! How the idempotency layer is put around the services. This, and the [`Guard`], are all there is to it.

use std::time::Duration;

use axum::{Router, http::Request};
use tokio::{net::TcpListener, time};
use tonic::{
    service::Routes,
    transport::{Server, server::TcpIncoming},
};
use tonic_idempotency::{
    IdempotencyLayer,
    maintenance::{RecoveryHandle, Sweeper, SweeperHandle},
    policy::{Policies, Procedure, StorePolicy},
    store::SessionSettings,
};
use tracing::Span;

use crate::{
    Args, FILE_DESCRIPTOR_SET,
    auth::Authentication,
    driver::Driver,
    error::Error,
    guard::Guard,
    health::Healthy,
    overrides::{Overrides, RECONCILED},
    protocols,
    signals::Signals,
};

/// How long connections may take to close.
const CLOSE: Duration = Duration::from_secs(1);

/// The services behind authentication and idempotency; health and reflection in front of both.
#[derive(Debug)]
pub(crate) struct Service<D> {
    driver: D,
    healthy: Healthy,
    idempotency: IdempotencyLayer,
    recovering: RecoveryHandle,
    routes: Routes,
    sweeping: SweeperHandle,
}

impl<D: Driver> Service<D> {
    /// The services of a driver, and a site beside them.
    pub(crate) async fn new(
        args: &Args,
        driver: D,
        authentication: Authentication,
        site: Router,
    ) -> Result<Self, Error> {
        let store = driver.store(args.max_batch).await?;
        let overrides = Overrides::of(args);
        let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
            .store(store.clone())
            // As the Go service does. A payment would rather be refused.
            .policies(Policies { on_store_unavailable: StorePolicy::Proceed, ..Policies::default() })
            // The layer names users whose ids are UUIDs; this names all of them, by the ids of their rows.
            .session_settings(|caller| {
                SessionSettings::new().set("app.current_user_id", caller.owner().as_uuid().to_string())
            })
            .reconciler(RECONCILED, driver.invites_reconciler());
        let builder = PROCEDURES
            .iter()
            .fold(builder, |builder, path| builder.procedure(overrides.apply(Procedure::builder(*path))));
        let idempotency = driver.complete(builder, overrides).build()?;
        let sweeping = Sweeper::new(store).spawn();
        let recovering = idempotency.recovery().spawn();

        // A call first meets authentication, which says who it is, then idempotency, then the handler.
        let guard = Guard::new(authentication, idempotency.clone());
        let services = driver.services(&guard).add_service(guard.authenticating(idempotency.operations().build()));
        let (healthy, health) = Healthy::new().await;
        let routes = protocols::all(site, add_reflection(services.add_service(health))?)?;
        Ok(Self { driver, healthy, idempotency, recovering, routes, sweeping })
    }

    /// Serves until the first signal, and the calls that run then to their end.
    pub(crate) async fn serve(&self, listener: TcpListener, signals: Signals) -> Result<(), Error> {
        let healthy = self.healthy.clone();
        Server::builder()
            .accept_http1(true) // browsers speak HTTP/2 only over TLS
            .trace_fn(call_span)
            .add_routes(self.routes.clone())
            .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), async move {
                signals.first().await;
                healthy.end().await;
            })
            .await?;
        Ok(())
    }

    /// Refuses new calls with a key, and waits, at most that long, for those that run: also for those whose clients have hung
    /// up.
    pub(crate) async fn shutdown(&self, at_most: Duration) {
        for call in self.idempotency.shutdown(at_most).await.unfinished {
            tracing::warn!(procedure = call.procedure, mode = ?call.mode, stage = ?call.stage, "a call was cut off");
        }
    }

    /// Stops the rest.
    pub(crate) async fn stop(self) {
        self.recovering.stop().await;
        self.sweeping.stop().await;
        // A call that was cut off may still have a connection.
        let _ = time::timeout(CLOSE, self.driver.close()).await;
    }
}

/// The span of a call, for a program that watches the sample's steps. No log shows it.
fn call_span(request: &Request<()>) -> Span {
    let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok());
    tracing::trace_span!(target: "organization::step", "call", key)
}

/// The procedures that take keys, to which the command line applies.
const PROCEDURES: [&str; 10] = [
    "/organization.v1.APIKeyService/CreateAPIKey",
    "/organization.v1.ClusterService/AddInstall",
    "/organization.v1.ClusterService/CreateCluster",
    "/organization.v1.ClusterService/CreateNodePool",
    "/organization.v1.ClusterService/RegisterNode",
    "/organization.v1.InviteService/InviteMember",
    "/organization.v1.NamespaceService/CreateNamespace",
    "/organization.v1.ProjectService/AddProjectMember",
    "/organization.v1.ProjectService/CreateProject",
    "/organization.v1.ProjectService/DeleteProject",
];

/// Reflection, which needs no token, as health.
fn add_reflection(routes: Routes) -> Result<Routes, Error> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_idempotency::proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // The details of errors, without which grpcurl cannot show them.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(routes.add_service(reflection().build_v1()?).add_service(reflection().build_v1alpha()?))
}
