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

use super::Guard;
use crate::{
    Error,
    database::{
        proto::{
            CreateProjectRequest, CreateProjectResponse, PROJECT,
            project_service_server::{ProjectService, ProjectServiceServer},
        },
        world::authenticated,
    },
};

/// The statement that sets the user of a transaction.
pub(super) const SET_USER: &str = "SELECT set_config('app.current_user_id', $1, true)";

/// The statement of the handler.
pub(super) const INSERT: &str = "INSERT INTO tenant.projects (cluster_id, name) VALUES ($1, $2) RETURNING id";

/// The handler on a driver.
pub(super) trait Handler: Clone + Send + Sync + 'static {
    /// The store on the same pool, with prepared statements.
    fn store(&self) -> Result<impl Store + Clone, Error>;

    /// Inserts a project, in a transaction of its own as this user.
    fn insert(&self, user: Uuid, cluster: Uuid, name: String) -> impl Future<Output = Result<Uuid, Status>> + Send;

    /// Inserts a project, in the transaction of the call.
    fn insert_in(call: &Extensions, cluster: Uuid, name: String) -> impl Future<Output = Result<Uuid, Status>> + Send;
}

#[derive(Clone)]
pub(super) struct Service<H>(pub(super) H);

impl<H: Handler> Service<H> {
    pub(super) fn guarded_by(self, guard: Guard) -> Result<Routes, Error> {
        let mode = match guard {
            Guard::Bare => return Ok(authenticated(ProjectServiceServer::new(self))),
            Guard::Reserved => Mode::Reserved,
            Guard::Replay | Guard::Transactional => Mode::Transactional,
        };
        let layer = IdempotencyLayer::builder(PROJECT)
            .store(self.0.store()?)
            .procedure(Procedure::builder("/benchmarks.database.v1.ProjectService/CreateProject").mode(mode))
            .replay_cache_bytes(0);
        Ok(authenticated(layer.build()?.layer(ProjectServiceServer::new(InMode { handler: self.0, mode }))))
    }
}

#[tonic::async_trait]
impl<H: Handler> ProjectService for Service<H> {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let Caller { user } = *request.extensions().get().ok_or_else(|| Status::unauthenticated("no user"))?;
        let CreateProjectRequest { cluster_id, name, payload } = request.into_inner();
        let project = self.0.insert(user, cluster(&cluster_id)?, name).await?;
        Ok(Response::new(CreateProjectResponse { project_id: project.to_string(), payload }))
    }
}

/// The service behind the layer.
struct InMode<H> {
    handler: H,
    mode: Mode,
}

#[tonic::async_trait]
impl<H: Handler> ProjectService for InMode<H> {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        if self.mode == Mode::Reserved {
            return Service(self.handler.clone()).create_project(request).await;
        }
        let (_, call, CreateProjectRequest { cluster_id, name, payload }) = request.into_parts();
        let project = H::insert_in(&call, cluster(&cluster_id)?, name).await?;
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
