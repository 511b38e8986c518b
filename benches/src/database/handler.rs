//! The handler of all contenders: a CreateProject like the sample's, with prepared statements and without any delay.

use deadpool_postgres::{GenericClient, Pool};
use organization::Caller;
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};
use tonic::{Request, Response, Status};
use tonic_idempotency::{Execution, Transaction};
use uuid::Uuid;

use super::proto::{CreateProjectRequest, CreateProjectResponse, project_service_server::ProjectService};

/// The statement that sets the user of a transaction.
pub(crate) const SET_USER: &str = "SELECT set_config('app.current_user_id', $1, true)";

/// The statement of the handler. A trigger writes a row of the outbox.
pub(crate) const INSERT: &str = "INSERT INTO tenant.projects (cluster_id, name) VALUES ($1, $2) RETURNING id";

/// A handler that inserts a project: in the call's transaction, or else in one of its own: BEGIN, the user, the INSERT, COMMIT.
/// The response returns the payload of the request.
#[derive(Clone, Debug)]
pub(crate) struct Projects {
    pool: Pool,
}

impl Projects {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool }
    }

    pub(crate) async fn insert(
        &self,
        execution: &Execution,
        user: Uuid,
        cluster: Uuid,
        name: &str,
    ) -> Result<Uuid, Status> {
        let mut connection = self.pool.get().await.map_err(internal)?;
        let transaction = connection.transaction().await.map_err(internal)?;
        query(&transaction, SET_USER, &[(&user.to_string(), Type::TEXT)]).await?;
        let project = insert(&transaction, cluster, name).await?;
        execution.effect_committed();
        transaction.commit().await.map_err(internal)?;
        Ok(project)
    }
}

#[tonic::async_trait]
impl ProjectService for Projects {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let user = caller(&request)?;
        let execution = Execution::from_request(&request);
        let transaction = Transaction::from_request(&request).ok();
        let CreateProjectRequest { cluster_id, name, payload } = request.into_inner();
        let cluster = uuid(&cluster_id)?;
        let id = match transaction {
            Some(transaction) => insert_in(&transaction, cluster, &name).await?,
            None => self.insert(&execution, user, cluster, &name).await?,
        };
        Ok(Response::new(CreateProjectResponse { project_id: id.to_string(), payload }))
    }
}

pub(crate) async fn insert_in(transaction: &Transaction, cluster: Uuid, name: &str) -> Result<Uuid, Status> {
    let insert = transaction.prepare_cached(INSERT).await?;
    let row = transaction.query_one(&insert, &[&cluster, &name]).await?;
    row.try_get(0).map_err(internal)
}

/// Executes the statement of the handler in a transaction of its own.
pub(super) async fn insert(client: &impl GenericClient, cluster: Uuid, name: &str) -> Result<Uuid, Status> {
    let rows = query(client, INSERT, &[(&cluster, Type::UUID), (&name, Type::TEXT)]).await?;
    rows.first().ok_or_else(|| Status::internal("no row"))?.try_get(0).map_err(internal)
}

/// A parameter and its type, which the statement is prepared for.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Executes a statement, prepared once for each connection.
pub(super) async fn query(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, Status> {
    let (values, types): (Vec<_>, Vec<_>) = parameters.iter().cloned().unzip();
    let statement = client.prepare_typed_cached(sql, &types).await.map_err(internal)?;
    client.query(&statement, &values).await.map_err(internal)
}

/// Returns the user who calls.
pub(super) fn caller<T>(request: &Request<T>) -> Result<Uuid, Status> {
    let caller = request.extensions().get::<Caller>().ok_or_else(|| Status::unauthenticated("no user"))?;
    Ok(caller.user)
}

/// Returns the idempotency key of a request.
pub(crate) fn key<T>(request: &Request<T>) -> Result<Uuid, Status> {
    let key = request.metadata().get("idempotency-key").and_then(|key| Uuid::try_parse_ascii(key.as_bytes()).ok());
    key.ok_or_else(|| Status::invalid_argument("no key"))
}

pub(super) fn uuid(text: &str) -> Result<Uuid, Status> {
    text.parse().map_err(internal)
}

pub(crate) fn internal(error: impl std::error::Error) -> Status {
    Status::internal(error.to_string())
}
