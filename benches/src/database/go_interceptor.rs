//! The Go interceptor around a handler: its statements, in their order, each on a connection that is acquired for it.
//!
//! The order is that of FUN-15, section 2.2 ("Lifecycle"); the user for row-level security (3.1) is set by the hooks of pgx's pool.
//!
//! | | awaited | resets |
//! |---|---|---:|
//! | first call | user, look-up; user, reserve; *BEGIN, user, INSERT, COMMIT*; user, complete: 10 | 3 |
//! | replay | user, look-up; user, status: 4 | 2 |

use deadpool_postgres::{Object, Pool};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio_postgres::{Row, types::Type};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::{
    handler::{Parameter, Projects, caller, internal, key, query, uuid},
    proto::{CreateProjectRequest, CreateProjectResponse, project_service_server::ProjectService},
};

const SET_USER: &str = "SELECT set_config('app.current_user_id', $1, false)";

const RESET_USER: &str = "RESET app.current_user_id";

const LOOK_UP: &str = "SELECT procedure, request_hash, response_bytes, project_id FROM tenant.idempotency_keys \
     WHERE idempotency_key = $1 AND user_id = $2 AND expires > now()";

const RESERVE: &str = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires) \
     VALUES ($1, $2, $3, $4, now() + interval '24 hours') ON CONFLICT (idempotency_key, user_id) DO NOTHING";

const COMPLETE: &str = "UPDATE tenant.idempotency_keys SET response_bytes = $3, project_id = $4 \
     WHERE idempotency_key = $1 AND user_id = $2 AND response_bytes IS NULL";

const STATUS: &str = "SELECT status FROM authz.outbox WHERE project_id = $1 ORDER BY id DESC LIMIT 1";

const PROCEDURE: &str = "/benchmarks.database.v1.ProjectService/CreateProject";

/// A handler behind the Go interceptor, with the pool of the Go server. The hooks of that pool do the least that the interceptor works
/// with: they set the user, whom row-level security needs, and reset it.
#[derive(Debug)]
pub(crate) struct GoInterceptor {
    handler: Projects,
    pool: Pool,
}

impl GoInterceptor {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { handler: Projects::new(pool.clone()), pool }
    }

    /// Executes one statement, on a connection that is acquired for it. The caller waits for the hook that sets the user, and, as in
    /// pgx, not for the one that resets it before the connection goes back to the pool.
    async fn query(&self, user: Uuid, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Status> {
        let connection = HookedConnection(Some(self.pool.get().await.map_err(internal)?));
        let acquired = connection.0.as_ref().ok_or_else(|| Status::internal("no connection"))?;
        query(acquired, SET_USER, &[(&user.to_string(), Type::TEXT)]).await?;
        query(acquired, sql, parameters).await
    }

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

/// A connection whose user is reset when it is dropped. `None` once it is on its way back.
struct HookedConnection(Option<Object>);

impl Drop for HookedConnection {
    fn drop(&mut self) {
        let Some(connection) = self.0.take() else { return };
        tokio::spawn(async move {
            if connection.batch_execute(RESET_USER).await.is_err() {
                // Closes it.
                drop(Object::take(connection));
            }
        });
    }
}

#[tonic::async_trait]
impl ProjectService for GoInterceptor {
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
        let reservation: [Parameter<'_>; 4] =
            [(&key, Type::UUID), (&user, Type::UUID), (&PROCEDURE, Type::TEXT), (&hash.as_slice(), Type::BYTEA)];
        self.query(user, RESERVE, &reservation).await?;
        let mut response = self.handler.create_project(request).await?;
        let bytes = response.get_ref().encode_to_vec();
        let project = uuid(&response.get_ref().project_id)?;
        let completion: [Parameter<'_>; 4] =
            [(&key, Type::UUID), (&user, Type::UUID), (&bytes, Type::BYTEA), (&project, Type::UUID)];
        self.query(user, COMPLETE, &completion).await?;
        set_status(&mut response, "processing");
        Ok(response)
    }
}

fn set_status(response: &mut Response<CreateProjectResponse>, status: &'static str) {
    response.metadata_mut().insert("idempotency-status", tonic::metadata::MetadataValue::from_static(status));
}
