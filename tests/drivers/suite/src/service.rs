//! A service whose handler runs a script in its transaction.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use organization::{
    FILE_DESCRIPTOR_SET,
    proto::{
        AddProjectMemberRequest, AddProjectMemberResponse, CreateProjectRequest, CreateProjectResponse,
        DeleteProjectRequest, DeleteProjectResponse, GetProjectRequest, GetProjectResponse, ListProjectsRequest,
        ListProjectsResponse,
        project_service_client::ProjectServiceClient,
        project_service_server::{ProjectService, ProjectServiceServer},
    },
};
use tokio::sync::Semaphore;
use tonic::{
    Request, Response, Status,
    service::{Routes, interceptor::InterceptedService},
    transport::Channel,
};
use tonic_idempotency::{
    Execution, IdempotencyLayer,
    layer::IdempotencyLayerBuilder,
    policy::{Mode, Procedure, ProcedureBuilder, Reconciliation},
    rejection::Reason,
    store::SqlStore,
};
use tonic_idempotency_tests::{Database, shop};
use tower_layer::Layer as _;
use uuid::Uuid;

use crate::{End, Stack, Step, patient};

/// The procedure that the service's handler implements.
pub const CREATE_PROJECT: &str = "/organization.v1.ProjectService/CreateProject";

/// A call as the script of a handler gets it.
pub struct Call<S: Stack> {
    /// The transaction that was found in the request.
    pub transaction: Result<S::Transaction, S::Error>,
    /// The execution that was found in the request.
    pub execution: Execution,
    /// The name that the client sent.
    pub name: String,
}

impl<S: Stack> Call<S> {
    /// Returns a handle of the transaction.
    ///
    /// # Panics
    ///
    /// There is none.
    pub fn transaction(&self) -> S::Transaction {
        self.transaction.as_ref().expect("a transaction").clone()
    }

    /// Takes the connection.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub async fn connection(&self) -> Result<S::Connection, S::Error> {
        S::connection(self.transaction.as_ref().expect("a transaction")).await
    }

    /// Inserts a project with the call's name.
    ///
    /// # Errors
    ///
    /// The status of the driver's error.
    pub async fn insert(&self) -> Result<Uuid, Status> {
        self.insert_as(&self.name).await
    }

    /// Inserts a project with this name.
    ///
    /// # Errors
    ///
    /// The status of the driver's error.
    pub async fn insert_as(&self, name: &str) -> Result<Uuid, Status> {
        S::insert(&mut self.connection().await.map_err(status)?, name).await.map_err(status)
    }

    /// Executes statements without parameters.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub async fn execute(&self, sql: &str) -> Result<(), S::Error> {
        S::execute(&mut self.connection().await?, sql).await
    }

    /// Runs a query that returns a text.
    ///
    /// # Errors
    ///
    /// The status of the driver's error.
    pub async fn select(&self, sql: &str) -> Result<Option<String>, Status> {
        S::select(&mut self.connection().await.map_err(status)?, sql).await.map_err(status)
    }

    /// Takes steps in a nested transaction.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub async fn nested(&self, steps: &[Step], end: End) -> Result<(), S::Error> {
        S::nested(&mut self.connection().await?, steps, end).await
    }
}

impl<S: Stack> fmt::Debug for Call<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Turns an error of a driver into the handler's status.
pub fn status(error: impl Into<Status>) -> Status {
    error.into()
}

type Script<S> = dyn Fn(Call<S>) -> Pin<Box<dyn Future<Output = Result<Uuid, Status>> + Send>> + Send + Sync;

/// A `ProjectService` whose handler runs a test's script.
struct Scripted<S: Stack> {
    script: Arc<Script<S>>,
    runs: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl<S: Stack> ProjectService for Scripted<S> {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let transaction = S::transaction(request.extensions());
        let execution = Execution::from_request(&request);
        let project = (self.script)(Call { transaction, execution, name: request.into_inner().name }).await?;
        Ok(Response::new(CreateProjectResponse { project_id: project.to_string() }))
    }

    async fn add_project_member(
        &self,
        _: Request<AddProjectMemberRequest>,
    ) -> Result<Response<AddProjectMemberResponse>, Status> {
        Err(Status::unimplemented("not in these tests"))
    }

    async fn delete_project(
        &self,
        _: Request<DeleteProjectRequest>,
    ) -> Result<Response<DeleteProjectResponse>, Status> {
        Err(Status::unimplemented("not in these tests"))
    }

    async fn get_project(&self, _: Request<GetProjectRequest>) -> Result<Response<GetProjectResponse>, Status> {
        Err(Status::unimplemented("not in these tests"))
    }

    async fn list_projects(&self, _: Request<ListProjectsRequest>) -> Result<Response<ListProjectsResponse>, Status> {
        Err(Status::unimplemented("not in these tests"))
    }
}

/// A wrapped service that listens, a client, a user of the organisation, and a key.
#[derive(Clone, Debug)]
pub struct Service {
    /// The connection of the client.
    pub channel: Channel,
    /// The client of the service.
    pub client: ProjectServiceClient<Channel>,
    /// The user that calls; `None`: calls without one.
    pub user: Option<Uuid>,
    /// The key of the calls; `None`: calls without one.
    pub key: Option<Uuid>,
    runs: Arc<AtomicUsize>,
}

impl Service {
    /// A service on the pool, with a transactional handler that runs the script.
    pub async fn new<S: Stack, F>(
        database: &Database,
        pool: S::Pool,
        script: impl Fn(Call<S>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Uuid, Status>> + Send + 'static,
    {
        Self::with(database, pool, |procedure| procedure, script).await
    }

    /// The same, with another description of the procedure.
    pub async fn with<S: Stack, F>(
        database: &Database,
        pool: S::Pool,
        describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
        script: impl Fn(Call<S>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Uuid, Status>> + Send + 'static,
    {
        Self::built(database, patient::<S>(pool), describe, |builder| builder, script).await
    }

    /// A service whose handler inserts a project, and then waits for the gate if the call's name begins with `wait`.
    pub async fn gated<S: Stack>(
        database: &Database,
        pool: S::Pool,
        describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
    ) -> (Self, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        let waits = Arc::clone(&gate);
        let script = move |call: Call<S>| {
            let gate = Arc::clone(&waits);
            async move {
                let project = call.insert().await?;
                if call.name.starts_with("wait") {
                    gate.acquire().await.expect("it is not closed").forget();
                }
                Ok(project)
            }
        };
        (Self::with(database, pool, describe, script).await, gate)
    }

    /// A service whose handler inserts a project with the call's name.
    pub async fn inserting<S: Stack>(database: &Database, pool: S::Pool) -> Self {
        Self::new(database, pool, |call: Call<S>| async move { call.insert().await }).await
    }

    /// The same, with another store and another layer.
    pub async fn built<S: Stack, F>(
        database: &Database,
        store: SqlStore<S::Driver>,
        describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
        build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
        script: impl Fn(Call<S>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Uuid, Status>> + Send + 'static,
    {
        let procedure = Procedure::builder(CREATE_PROJECT).creates("project", "project_id").mode(Mode::Transactional);
        let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
            .store(store)
            .reconciler("/organization.v1.InviteService/InviteMember", |_| async { Ok(Reconciliation::Unknown) })
            .procedure(describe(procedure));
        let layer = build(builder).build().expect("the layer can be built");
        let runs = Arc::new(AtomicUsize::new(0));
        let handler = Scripted { script: Arc::new(move |call| Box::pin(script(call))), runs: Arc::clone(&runs) };
        let wrapped = layer.layer(ProjectServiceServer::new(handler));
        let address = shop::serve(Routes::new(InterceptedService::new(wrapped, shop::authenticate))).await;
        let channel = shop::channel(address).await;
        let client = ProjectServiceClient::new(channel.clone());
        let user = Some(database.user().await.id);
        Self { channel, client, user, key: Some(Uuid::new_v4()), runs }
    }

    /// Calls the service to create a project with this name.
    ///
    /// # Errors
    ///
    /// The status of the answer.
    pub async fn create(&self, name: &str) -> Result<Seen, Status> {
        let message = CreateProjectRequest { name: name.to_owned(), ..CreateProjectRequest::default() };
        let response = self.client.clone().create_project(shop::with(message, self.user, self.key)).await?;
        let header = |name| Some(response.metadata().get(name)?.to_str().expect("text").to_owned());
        Ok(Seen {
            status: header("idempotency-status"),
            replayed: header("idempotent-replayed").is_some(),
            project: response.get_ref().project_id.parse().expect("a UUID"),
        })
    }

    /// Spawns [`create`](Self::create) as a task.
    pub fn spawn(&self, name: &'static str) -> tokio::task::JoinHandle<Result<Seen, Status>> {
        let service = self.clone();
        tokio::spawn(async move { service.create(name).await })
    }

    /// The same service and key, with another user.
    #[must_use]
    pub fn with_user(&self, user: Option<Uuid>) -> Self {
        Self { user, ..self.clone() }
    }

    /// The same service and user, with another key.
    #[must_use]
    pub fn with_key(&self, key: Option<Uuid>) -> Self {
        Self { key, ..self.clone() }
    }

    /// The same service and user, with a new key.
    #[must_use]
    pub fn with_new_key(&self) -> Self {
        self.with_key(Some(Uuid::new_v4()))
    }

    /// How often the handler has run.
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

/// The parts of a response that a client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The status of the created project.
    pub status: Option<String>,
    /// Whether the response is a replay.
    pub replayed: bool,
    /// The created project.
    pub project: Uuid,
}

/// The reason of a refusal.
///
/// # Panics
///
/// It is none of the layer.
pub fn reason(refused: Result<Seen, Status>) -> Reason {
    let status = refused.expect_err("a refusal");
    Reason::of(&status).unwrap_or_else(|| panic!("not a refusal of the layer: {status:?}"))
}
