//! The handler of all contenders: a CreateProject like the sample's, with prepared statements and without any delay.

use deadpool_postgres::Pool;
use organization::Caller;
use tokio_postgres::types::Type;
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
        let set_user = transaction.prepare_typed_cached(SET_USER, &[Type::TEXT]).await.map_err(internal)?;
        transaction.query(&set_user, &[&user.to_string()]).await.map_err(internal)?;
        let insert = transaction.prepare_typed_cached(INSERT, &[Type::UUID, Type::TEXT]).await.map_err(internal)?;
        let row = transaction.query_one(&insert, &[&cluster, &name]).await.map_err(internal)?;
        execution.effect_committed();
        transaction.commit().await.map_err(internal)?;
        row.try_get(0).map_err(internal)
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

/// Returns the user who calls.
pub(super) fn caller<T>(request: &Request<T>) -> Result<Uuid, Status> {
    let caller = request.extensions().get::<Caller>().ok_or_else(|| Status::unauthenticated("no user"))?;
    Ok(caller.user)
}

/// Returns the idempotency key of a request.
pub(super) fn key<T>(request: &Request<T>) -> Result<Uuid, Status> {
    let key = request.metadata().get("idempotency-key").and_then(|key| Uuid::try_parse_ascii(key.as_bytes()).ok());
    key.ok_or_else(|| Status::invalid_argument("no key"))
}

pub(super) fn uuid(text: &str) -> Result<Uuid, Status> {
    text.parse().map_err(internal)
}

pub(super) fn internal(error: impl std::error::Error) -> Status {
    Status::internal(error.to_string())
}
