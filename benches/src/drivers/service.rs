//! The service of all drivers: the sample's CreateProject, in a few lines.

use http::Extensions;
use organization::Caller;
use tonic::{Request, Response, Status, service::Routes};
use tonic_idempotency::{
    IdempotencyLayer,
    policy::{Mode, Procedure},
    store::Store,
};
use tower_layer::Layer as _;
use uuid::Uuid;

use crate::{
    database::{
        proto::{
            CreateProjectRequest, CreateProjectResponse, PROJECT,
            project_service_server::{ProjectService, ProjectServiceServer},
        },
        world::authenticated,
    },
    error::Error,
};

/// The connections of a driver's pool. The store and the handlers share it.
pub(super) const CONNECTIONS: usize = 16;

/// The statement by which a connection becomes one of the API's role.
pub(super) const SET_ROLE: &str = "SET ROLE organization_api";

/// The part that answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// The handler, without the layer.
    Bare,
    Transactional,
}

/// The handler on a driver.
pub(super) trait Handler: Clone + Send + Sync + 'static {
    /// The store on the same pool, with prepared statements.
    fn store(&self) -> Result<impl Store + Clone, Error>;

    /// Inserts a project, in a transaction of its own as this user.
    fn insert(&self, user: Uuid, cluster: Uuid, name: String) -> impl Future<Output = Result<Uuid, Status>> + Send;

    /// Inserts a project, in the transaction of the call.
    fn insert_in(call: &Extensions, cluster: Uuid, name: String) -> impl Future<Output = Result<Uuid, Status>> + Send;
}

/// The service on a driver, with a guard or without.
#[derive(Clone)]
pub(super) struct Service<H> {
    handler: H,
    guard: Guard,
}

impl<H: Handler> Service<H> {
    /// Returns the service, behind the layer unless it is bare.
    pub(super) fn routes(handler: H, guard: Guard) -> Result<Routes, Error> {
        let service = ProjectServiceServer::new(Self { handler: handler.clone(), guard });
        if guard == Guard::Bare {
            return Ok(authenticated(service));
        }
        let create = Procedure::builder("/benchmarks.database.v1.ProjectService/CreateProject");
        let layer = IdempotencyLayer::builder(PROJECT)
            .store(handler.store()?)
            .procedure(create.mode(Mode::Transactional))
            .replay_cache_bytes(0);
        Ok(authenticated(layer.build()?.layer(service)))
    }
}

#[tonic::async_trait]
impl<H: Handler> ProjectService for Service<H> {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let (_, call, CreateProjectRequest { cluster_id, name, payload }) = request.into_parts();
        let cluster = cluster(&cluster_id)?;
        let project = match self.guard {
            Guard::Bare => {
                let Caller { user } = *call.get().ok_or_else(|| Status::unauthenticated("no user"))?;
                self.handler.insert(user, cluster, name).await?
            }
            Guard::Transactional => H::insert_in(&call, cluster, name).await?,
        };
        Ok(Response::new(CreateProjectResponse { project_id: project.to_string(), payload }))
    }
}

fn cluster(id: &str) -> Result<Uuid, Status> {
    id.parse().map_err(|_| Status::invalid_argument("the id of the cluster is not a UUID"))
}

/// The answer to a call whose statement has failed.
pub(super) fn failed(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}
