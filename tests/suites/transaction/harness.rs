//! A service whose handler runs a script in its transaction, and checks of the database.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::Pool;
use http::uri::PathAndQuery;
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
use tokio::sync::mpsc;
use tokio_postgres::{Client, types::Type};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status,
    service::{Routes, interceptor::InterceptedService},
    transport::Channel,
};
use tonic_idempotency::{
    IdempotencyLayer, Transaction,
    layer::IdempotencyLayerBuilder,
    policy::{Mode, Procedure, ProcedureBuilder},
    rejection::Reason,
    store::{PostgresStore, TransactionError},
};
use tonic_idempotency_tests::{Database, shop, until};
use tower_layer::Layer as _;
use uuid::Uuid;

pub(crate) const CREATE_PROJECT: &str = "/organization.v1.ProjectService/CreateProject";

/// A call as the script of a handler gets it.
pub(crate) struct Call {
    pub(crate) transaction: Result<Transaction, TransactionError>,
    pub(crate) name: String,
}

impl Call {
    pub(crate) fn transaction(&self) -> Transaction {
        self.transaction.as_ref().expect("a transaction").clone()
    }

    /// Inserts a project with the call's name.
    pub(crate) async fn insert(&self) -> Result<Uuid, Status> {
        insert(self.transaction.as_ref().expect("a transaction"), &self.name).await
    }
}

/// Inserts a project with this name.
pub(crate) async fn insert(transaction: &Transaction, name: &str) -> Result<Uuid, Status> {
    let insert = "INSERT INTO tenant.projects (cluster_id, name) SELECT id, $1 FROM tenant.clusters RETURNING id";
    Ok(transaction.query_typed_one(insert, &[(&name, Type::TEXT)]).await?.get("id"))
}

type Script = dyn Fn(Call) -> Pin<Box<dyn Future<Output = Result<Uuid, Status>> + Send>> + Send + Sync;

/// A `ProjectService` whose handler runs a test's script.
struct Scripted {
    script: Arc<Script>,
    runs: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl ProjectService for Scripted {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let transaction = Transaction::from_request(&request);
        let project = (self.script)(Call { transaction, name: request.into_inner().name }).await?;
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
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) channel: Channel,
    pub(crate) client: ProjectServiceClient<Channel>,
    pub(crate) user: Option<Uuid>,
    pub(crate) key: Option<Uuid>,
    pub(crate) runs: Arc<AtomicUsize>,
}

impl Service {
    /// A service on the pool, with a handler that runs the script.
    pub(crate) async fn new<F>(
        database: &Database,
        pool: Pool,
        script: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Uuid, Status>> + Send + 'static,
    {
        Self::with(database, pool, |procedure| procedure, script).await
    }

    /// The same, with another description of the procedure.
    pub(crate) async fn with<F>(
        database: &Database,
        pool: Pool,
        describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
        script: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Uuid, Status>> + Send + 'static,
    {
        Self::built(database, pool, describe, |builder| builder, script).await
    }

    /// The same, with another layer.
    pub(crate) async fn built<F>(
        database: &Database,
        pool: Pool,
        describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
        build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
        script: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Uuid, Status>> + Send + 'static,
    {
        let procedure = Procedure::builder(CREATE_PROJECT).creates("project", "project_id").mode(Mode::Transactional);
        let store = PostgresStore::new(pool, organization::resource_types())
            .timeout(Duration::from_secs(60))
            .status_timeout(Duration::from_secs(60));
        let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
            .store(store)
            .reconciler("/organization.v1.InviteService/InviteMember", |_| async {
                Ok(tonic_idempotency::policy::Reconciliation::Unknown)
            })
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
    pub(crate) async fn create(&self, name: &str) -> Result<Seen, Status> {
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
    pub(crate) fn spawn(&self, name: &'static str) -> tokio::task::JoinHandle<Result<Seen, Status>> {
        let service = self.clone();
        tokio::spawn(async move { service.create(name).await })
    }

    /// Sends the head of the same call. Its message follows when the test puts it into the channel.
    pub(crate) fn spawn_head(
        &self,
    ) -> (mpsc::Sender<CreateProjectRequest>, tokio::task::JoinHandle<Result<CreateProjectResponse, Status>>) {
        let (sender, receiver) = mpsc::channel(1);
        let request = shop::with(ReceiverStream::new(receiver), self.user, self.key);
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        let call = tokio::spawn(async move {
            client.ready().await.expect("the server listens");
            let path = PathAndQuery::from_static(CREATE_PROJECT);
            let codec = tonic_prost::ProstCodec::<CreateProjectRequest, CreateProjectResponse>::default();
            client.client_streaming(request, path, codec).await.map(tonic::Response::into_inner)
        });
        (sender, call)
    }

    pub(crate) fn with_key(&self, key: Option<Uuid>) -> Self {
        Self { key, ..self.clone() }
    }

    /// How often the handler has run.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

/// The parts of a response that a client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: Option<String>,
    pub(crate) replayed: bool,
    pub(crate) project: Uuid,
}

/// The numbers of projects, of their outbox rows, and of records in the tables.
pub(crate) async fn rows(owner: &Client) -> [i64; 3] {
    let select = "SELECT (SELECT count(*) FROM tenant.projects), (SELECT count(*) FROM authz.outbox WHERE project_id IS NOT NULL),
                         (SELECT count(*) FROM tenant.idempotency_keys)";
    let row = owner.query_one(select, &[]).await.expect("the counts");
    [row.get(0), row.get(1), row.get(2)]
}

/// The number of open transactions in the database, without this one.
pub(crate) async fn open_transactions(owner: &Client) -> i64 {
    let select = "SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND backend_type = 'client backend'
                    AND xact_start IS NOT NULL AND pid <> pg_backend_pid()";
    owner.query_one(select, &[]).await.expect("the activity").get(0)
}

/// Waits until no transaction is open: a ROLLBACK may follow the answer of its call.
pub(crate) async fn all_have_ended(owner: &Client) {
    until("all transactions have ended", async || open_transactions(owner).await == 0).await;
}

/// The reason of a refusal.
pub(crate) fn reason(refused: Result<Seen, Status>) -> Reason {
    let status = refused.expect_err("a refusal");
    Reason::of(&status).unwrap_or_else(|| panic!("not a refusal of the layer: {status:?}"))
}
