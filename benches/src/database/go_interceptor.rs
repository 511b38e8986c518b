//! The Go interceptor's statements around a handler, in the same order: each is a round trip and a commit of its own.

use deadpool_postgres::{Object, Pool};
use organization::Caller;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::proto::{CreateProjectRequest, CreateProjectResponse, project_service_server::ProjectService};

const SET_USER: &str = "SELECT set_config('app.current_user_id', $1, false)";

const LOOK_UP: &str = "SELECT procedure, request_hash, response_bytes, project_id FROM tenant.idempotency_keys \
     WHERE idempotency_key = $1 AND user_id = $2 AND expires > now()";

const RESERVE: &str = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires) \
     VALUES ($1, $2, $3, $4, now() + interval '24 hours') ON CONFLICT (idempotency_key, user_id) DO NOTHING";

const COMPLETE: &str = "UPDATE tenant.idempotency_keys SET response_bytes = $3, project_id = $4 \
     WHERE idempotency_key = $1 AND user_id = $2";

const STATUS: &str = "SELECT status FROM authz.outbox WHERE project_id = $1 ORDER BY id DESC LIMIT 1";

const PROCEDURE: &str = "/benchmarks.database.v1.ProjectService/CreateProject";

/// A handler behind the Go interceptor.
#[derive(Debug)]
pub(crate) struct GoInterceptor<S> {
    handler: S,
    pool: Pool,
    statements: Statements,
}

/// The way in which statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statements {
    /// Parsed and planned each time, which works behind any PgBouncer.
    Parsed,
    /// Prepared once for each connection, as pgx does.
    Prepared,
}

impl<S> GoInterceptor<S> {
    pub(crate) fn new(handler: S, pool: Pool, statements: Statements) -> Self {
        Self { handler, pool, statements }
    }

    async fn query(
        &self,
        connection: &Object,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Status> {
        let rows = match self.statements {
            Statements::Parsed => connection.query_typed(sql, parameters).await,
            Statements::Prepared => {
                let types: Vec<_> = parameters.iter().map(|(_, parameter)| parameter.clone()).collect();
                let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
                let statement = connection.prepare_typed_cached(sql, &types).await.map_err(internal)?;
                connection.query(&statement, &values).await
            }
        };
        rows.map_err(internal)
    }
}

#[tonic::async_trait]
impl<S: ProjectService> ProjectService for GoInterceptor<S> {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let user = request.extensions().get::<Caller>().ok_or_else(|| Status::unauthenticated("no user"))?.user;
        let key: Uuid = request
            .metadata()
            .get("idempotency-key")
            .and_then(|key| key.to_str().ok()?.parse().ok())
            .ok_or_else(|| Status::invalid_argument("no key"))?;
        let hash: [u8; 32] = Sha256::digest(request.get_ref().encode_to_vec()).into();
        let connection = self.pool.get().await.map_err(internal)?;

        self.query(&connection, SET_USER, &[(&user.to_string(), Type::TEXT)]).await?;
        let recorded = self.query(&connection, LOOK_UP, &[(&key, Type::UUID), (&user, Type::UUID)]).await?;
        let response = match recorded.first() {
            Some(record) => self.replay(&connection, record, &hash).await?,
            None => {
                self.query(
                    &connection,
                    RESERVE,
                    &[
                        (&key, Type::UUID),
                        (&user, Type::UUID),
                        (&PROCEDURE, Type::TEXT),
                        (&hash.as_slice(), Type::BYTEA),
                    ],
                )
                .await?;
                let mut response = self.handler.create_project(request).await?;
                let bytes = response.get_ref().encode_to_vec();
                let project: Uuid = response.get_ref().project_id.parse().map_err(internal)?;
                self.query(
                    &connection,
                    COMPLETE,
                    &[(&key, Type::UUID), (&user, Type::UUID), (&bytes, Type::BYTEA), (&project, Type::UUID)],
                )
                .await?;
                set_status(&mut response, "processing");
                response
            }
        };
        self.query(&connection, SET_USER, &[(&"", Type::TEXT)]).await?;
        Ok(response)
    }
}

impl<S> GoInterceptor<S> {
    async fn replay(
        &self,
        connection: &Object,
        record: &Row,
        hash: &[u8],
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let recorded: &[u8] = record.try_get("request_hash").map_err(internal)?;
        let procedure: &str = record.try_get("procedure").map_err(internal)?;
        if recorded != hash || procedure != PROCEDURE {
            return Err(Status::invalid_argument("the key was used with another request"));
        }
        let bytes: Option<&[u8]> = record.try_get("response_bytes").map_err(internal)?;
        let bytes = bytes.ok_or_else(|| Status::aborted("in progress"))?;
        let project: Uuid = record.try_get("project_id").map_err(internal)?;
        let status = self.query(connection, STATUS, &[(&project, Type::UUID)]).await?;
        let status: &str = status.first().map_or(Ok("processing"), |row| row.try_get("status")).map_err(internal)?;
        let mut response = Response::new(CreateProjectResponse::decode(bytes).map_err(internal)?);
        set_status(&mut response, if status == "completed" { "completed" } else { "processing" });
        Ok(response)
    }
}

fn set_status(response: &mut Response<CreateProjectResponse>, status: &'static str) {
    response.metadata_mut().insert("idempotency-status", tonic::metadata::MetadataValue::from_static(status));
}

fn internal(error: impl std::error::Error) -> Status {
    Status::internal(error.to_string())
}
