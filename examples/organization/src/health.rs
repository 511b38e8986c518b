//! The health of the services: serving until the first signal.
//!
//! A database that is away does not change it: a server that is restarted then loses the outcomes that wait in its memory.

use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::{HealthReporter, health_reporter},
};
use tonic_idempotency::proto::v1::operation_service_server;

use crate::proto::{
    api_key_service_server, cluster_service_server, invite_service_server, namespace_service_server,
    project_service_server,
};

/// The services, and the server as a whole.
const SERVICES: [&str; 7] = [
    "",
    api_key_service_server::SERVICE_NAME,
    cluster_service_server::SERVICE_NAME,
    invite_service_server::SERVICE_NAME,
    namespace_service_server::SERVICE_NAME,
    operation_service_server::SERVICE_NAME,
    project_service_server::SERVICE_NAME,
];

/// The answers of the service `grpc.health.v1.Health`.
#[derive(Clone, Debug)]
pub(crate) struct Healthy(HealthReporter);

impl Healthy {
    /// All services serve. Returns also the service that says so.
    pub(crate) async fn new() -> (Self, HealthServer<impl Health>) {
        let (reporter, service) = health_reporter();
        for service in SERVICES {
            reporter.set_service_status(service, ServingStatus::Serving).await;
        }
        (Self(reporter), service)
    }

    /// No service serves any more. Those who watch hear it, and then their streams end: open ones would delay the shutdown.
    pub(crate) async fn end(mut self) {
        for service in SERVICES {
            self.0.set_service_status(service, ServingStatus::NotServing).await;
            self.0.clear_service_status(service).await;
        }
    }
}
