//! The Go interceptor around a handler: its statements, in their order, each on a connection that is acquired for it.
//!
//! The order is that of FUN-15, section 2.2 ("Lifecycle"); the user for row-level security (3.1) is set by the hooks of pgx's pool.
//!
//! | | awaited, for a first call | resets |
//! |---|---|---:|
//! | leanest wiring | user, look-up; user, reserve; *BEGIN, user, INSERT, COMMIT*; user, complete: 10 | 3 |
//! | as its product wires it | organisation, user, look-up; the same, reserve; the same, *BEGIN, INSERT, COMMIT*; the same, complete: 14 | 8 |
//!
//! | | awaited, for a replay | resets |
//! |---|---|---:|
//! | leanest wiring | user, look-up; user, status: 4 | 2 |
//! | as its product wires it | organisation, user, look-up; the same, status: 6 | 4 |
//!
//! | module | holds |
//! |---|---|
//! | `connections` | the pool with its hooks |
//! | `handler` | the handler on that pool |

mod connections;
mod handler;

use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};
use tonic::{Request, Response, Status};
use uuid::Uuid;

pub(crate) use self::{
    connections::{Connections, Wiring},
    handler::ProductProjects,
};
use super::{
    handler::{caller, internal, key, uuid},
    proto::{CreateProjectRequest, CreateProjectResponse, project_service_server::ProjectService},
};

const LOOK_UP: &str = "SELECT procedure, request_hash, response_bytes, project_id FROM tenant.idempotency_keys \
     WHERE idempotency_key = $1 AND user_id = $2 AND expires > now()";

const RESERVE: &str = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires) \
     VALUES ($1, $2, $3, $4, now() + interval '24 hours') ON CONFLICT (idempotency_key, user_id) DO NOTHING";

const COMPLETE: &str = "UPDATE tenant.idempotency_keys SET response_bytes = $3, project_id = $4 \
     WHERE idempotency_key = $1 AND user_id = $2 AND response_bytes IS NULL";

const STATUS: &str = "SELECT status FROM authz.outbox WHERE project_id = $1 ORDER BY id DESC LIMIT 1";

const PROCEDURE: &str = "/benchmarks.database.v1.ProjectService/CreateProject";

/// A handler behind the Go interceptor.
#[derive(Debug)]
pub(crate) struct GoInterceptor<S> {
    handler: S,
    connections: Connections,
}

impl<S> GoInterceptor<S> {
    pub(crate) fn new(handler: S, connections: Connections) -> Self {
        Self { handler, connections }
    }

    /// Executes one statement, on a connection that is acquired for it.
    async fn query(
        &self,
        user: Uuid,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Status> {
        self.connections.acquire(user).await?.query(sql, parameters).await
    }
}

#[tonic::async_trait]
impl<S: ProjectService> ProjectService for GoInterceptor<S> {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let (user, key) = (caller(&request)?, key(&request)?);
        let hash: [u8; 32] = Sha256::digest(request.get_ref().encode_to_vec()).into();
        let recorded = self.query(user, LOOK_UP, &[(&key, Type::UUID), (&user, Type::UUID)]).await?;
        if let Some(record) = recorded.first() {
            return self.replay(user, record, &hash).await;
        }
        let reservation: [(&(dyn ToSql + Sync), Type); 4] =
            [(&key, Type::UUID), (&user, Type::UUID), (&PROCEDURE, Type::TEXT), (&hash.as_slice(), Type::BYTEA)];
        self.query(user, RESERVE, &reservation).await?;
        let mut response = self.handler.create_project(request).await?;
        let bytes = response.get_ref().encode_to_vec();
        let project = uuid(&response.get_ref().project_id)?;
        let completion: [(&(dyn ToSql + Sync), Type); 4] =
            [(&key, Type::UUID), (&user, Type::UUID), (&bytes, Type::BYTEA), (&project, Type::UUID)];
        self.query(user, COMPLETE, &completion).await?;
        set_status(&mut response, "processing");
        Ok(response)
    }
}

impl<S> GoInterceptor<S> {
    async fn replay(&self, user: Uuid, record: &Row, hash: &[u8]) -> Result<Response<CreateProjectResponse>, Status> {
        let recorded: &[u8] = record.try_get("request_hash").map_err(internal)?;
        let procedure: &str = record.try_get("procedure").map_err(internal)?;
        if recorded != hash || procedure != PROCEDURE {
            return Err(Status::invalid_argument("the key was used with another request"));
        }
        let bytes: Option<&[u8]> = record.try_get("response_bytes").map_err(internal)?;
        let bytes = bytes.ok_or_else(|| Status::aborted("in progress"))?;
        let project: Uuid = record.try_get("project_id").map_err(internal)?;
        let status = self.query(user, STATUS, &[(&project, Type::UUID)]).await?;
        let status: &str = status.first().map_or(Ok("processing"), |row| row.try_get("status")).map_err(internal)?;
        let mut response = Response::new(CreateProjectResponse::decode(bytes).map_err(internal)?);
        set_status(&mut response, if status == "completed" { "completed" } else { "processing" });
        Ok(response)
    }
}

fn set_status(response: &mut Response<CreateProjectResponse>, status: &'static str) {
    response.metadata_mut().insert("idempotency-status", tonic::metadata::MetadataValue::from_static(status));
}
