//! Pools of sqlx, a service whose handler runs a script in its transaction, and checks of the database.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
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
use protobuf_canonical::RequestHash;
use scratch_postgres::PgBouncer;
use sqlx::{
    Executor as _, PgConnection, PgPool, Row as _,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio_postgres::Client;
use tonic::{
    Request, Response, Status,
    service::{Routes, interceptor::InterceptedService},
    transport::Channel,
};
use tonic_idempotency::{
    IdempotencyLayer, KeyId, OwnerId,
    layer::IdempotencyLayerBuilder,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy, Mode, Procedure, ProcedureBuilder, Reconciliation},
    rejection::Reason,
    store::{CallSession, Claim, Reservation},
};
use tonic_idempotency_sqlx::{SqlxStore, Transaction, TransactionConnection, TransactionError};
use tonic_idempotency_tests::{API_ROLE, Database, Proxy, shop, until};
use tower_layer::Layer as _;
use uuid::Uuid;

pub(crate) const CREATE_PROJECT: &str = "/organization.v1.ProjectService/CreateProject";

/// A statement that loses a deadlock.
pub(crate) const LOSE: &str = "DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'deadlock_detected'; END $$";

/// A pool of connections of the API's role.
pub(crate) fn pool(database: &Database, size: u32) -> PgPool {
    pool_of(options(database.url()), size, "")
}

/// A pool of connections of the API's role. Each runs `setup` first.
pub(crate) fn pool_with(database: &Database, size: u32, setup: &'static str) -> PgPool {
    pool_of(options(database.url()), size, setup)
}

/// A proxy in front of the server, and a pool that connects through it only.
pub(crate) async fn pool_through_proxy(database: &Database, size: u32) -> (Proxy, PgPool) {
    let (proxy, _) = database.pool_through_proxy(1).await;
    let pool = pool_of(through(&proxy, database.url()), size, "");
    (proxy, pool)
}

/// Options of connections through a proxy.
fn through(proxy: &Proxy, url: &str) -> PgConnectOptions {
    options(url).host(&proxy.address().ip().to_string()).port(proxy.address().port())
}

/// A pool of connections through PgBouncer in transaction mode.
pub(crate) fn pool_through(bouncer: &PgBouncer, size: u32) -> PgPool {
    // As docs/drivers.md says.
    let options = options(bouncer.url()).statement_cache_capacity(0).extra_float_digits(None);
    PgPoolOptions::new().max_connections(size).connect_lazy_with(options)
}

pub(crate) fn options(url: &str) -> PgConnectOptions {
    url.parse().expect("a URL")
}

fn pool_of(options: PgConnectOptions, size: u32, setup: &'static str) -> PgPool {
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(Duration::from_secs(2))
        .after_connect(move |connection, _| {
            Box::pin(async move {
                let setup = sqlx::AssertSqlSafe(format!("SET ROLE {API_ROLE}; {setup}"));
                connection.execute(sqlx::raw_sql(setup)).await.map(drop)
            })
        })
        .connect_lazy_with(options)
}

/// A store on this pool, with timeouts that are long enough for a busy machine.
pub(crate) fn patient(pool: PgPool) -> SqlxStore {
    SqlxStore::new(pool, organization::resource_types())
        .timeout(Duration::from_secs(60))
        .status_timeout(Duration::from_secs(60))
}

/// Waits until no connection is in use: each returns in a task of its own.
pub(crate) async fn all_are_back(pool: &PgPool) {
    until("the connections are back", async || pool.num_idle() == usize::try_from(pool.size()).expect("a few")).await;
}

/// Asserts that the pool's connections are clean: no transaction, user, owner, timeout or lock.
pub(crate) async fn assert_clean(pool: &PgPool) {
    all_are_back(pool).await;
    let mut connections = Vec::new();
    while let Some(connection) = pool.try_acquire() {
        connections.push(connection);
    }
    for connection in &mut connections {
        let mut times = Vec::new();
        // Two statements; in an open transaction they would have the same time.
        for _ in 0..2 {
            // Behind a pooler, a prepared statement may reach another server than its execution.
            let time = sqlx::raw_sql("SELECT now()::text").fetch_one(&mut **connection).await.expect("a time");
            times.push(time.get::<String, _>(0));
        }
        assert_ne!(times[0], times[1], "a transaction is open");
        let look = "SELECT concat(current_setting('app.current_user_id', true), current_setting('idempotency.owner', true),
                                  nullif(current_setting('idle_in_transaction_session_timeout'), '0'),
                                  (SELECT nullif(count(*), 0) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'))";
        let left = sqlx::raw_sql(look).fetch_one(&mut **connection).await.expect("the settings");
        assert_eq!(left.get::<String, _>(0), "");
    }
}

/// A call as the script of a handler gets it.
pub(crate) struct Call {
    pub(crate) transaction: Result<Transaction, TransactionError>,
    pub(crate) name: String,
}

impl Call {
    pub(crate) fn transaction(&self) -> Transaction {
        self.transaction.as_ref().expect("a transaction").clone()
    }

    pub(crate) async fn connection(&self) -> Result<TransactionConnection, TransactionError> {
        self.transaction().connection().await
    }

    /// Inserts a project with the call's name.
    pub(crate) async fn insert(&self) -> Result<Uuid, Status> {
        Ok(insert(&mut *self.connection().await?, &self.name).await?)
    }
}

/// Inserts a project with this name, as a repository does that knows nothing of calls.
pub(crate) async fn insert(connection: &mut PgConnection, name: &str) -> Result<Uuid, TransactionError> {
    let insert = "INSERT INTO tenant.projects (cluster_id, name) SELECT id, $1 FROM tenant.clusters RETURNING id";
    // Works behind a pooler, too.
    Ok(sqlx::query_scalar(insert).persistent(false).bind(name).fetch_one(connection).await?)
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
    pub(crate) client: ProjectServiceClient<Channel>,
    pub(crate) user: Option<Uuid>,
    pub(crate) key: Option<Uuid>,
    pub(crate) runs: Arc<AtomicUsize>,
}

impl Service {
    /// A service on the pool, with a handler that runs the script.
    pub(crate) async fn new<F>(
        database: &Database,
        pool: PgPool,
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
        pool: PgPool,
        describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
        script: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Uuid, Status>> + Send + 'static,
    {
        Self::built(database, patient(pool), describe, |builder| builder, script).await
    }

    /// The same, with another store and another layer.
    pub(crate) async fn built<F>(
        database: &Database,
        store: SqlxStore,
        describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
        build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
        script: impl Fn(Call) -> F + Send + Sync + 'static,
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
        let client = ProjectServiceClient::new(shop::channel(address).await);
        let user = Some(database.user().await.id);
        Self { client, user, key: Some(Uuid::new_v4()), runs }
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

/// The names of the projects, in the order of their names.
pub(crate) async fn names(owner: &Client) -> Vec<String> {
    let names = owner.query("SELECT name FROM tenant.projects ORDER BY name", &[]).await.expect("the projects");
    names.iter().map(|row| row.get(0)).collect()
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

/// A claim of this user.
pub(crate) fn claim(user: Uuid, key: Uuid) -> Claim {
    Claim {
        reservation: Reservation::new(OwnerId::new(user), KeyId::new(key)),
        session: CallSession { user: Some(user), settings: None },
        procedure: CREATE_PROJECT.to_owned(),
        request: RequestHash::from([7; 32]).into(),
        lease: Duration::from_secs(60),
        retention: Duration::from_secs(60),
        on_lease_ended: LeasePolicy::Rerun,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: None,
    }
}
