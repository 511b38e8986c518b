//! The lower bound of a replay from the store: a handler that selects one row by its primary key.

use deadpool_postgres::Pool;
use prost::Message as _;
use tokio_postgres::types::Type;
use tonic::{Request, Response, Status};

use super::{
    handler::{internal, key, query},
    proto::{CreateProjectRequest, CreateProjectResponse, project_service_server::ProjectService},
};

const SELECT: &str = "SELECT response FROM benchmarks.responses WHERE id = $1";

/// A handler that returns the response recorded under the key, and does nothing else.
#[derive(Debug)]
pub(crate) struct PrimaryKey {
    pool: Pool,
}

impl PrimaryKey {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool }
    }
}

#[tonic::async_trait]
impl ProjectService for PrimaryKey {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let key = key(&request)?;
        let connection = self.pool.get().await.map_err(internal)?;
        let rows = query(&connection, SELECT, &[(&key, Type::UUID)]).await?;
        let row = rows.first().ok_or_else(|| Status::not_found("no such key"))?;
        let bytes: &[u8] = row.try_get("response").map_err(internal)?;
        Ok(Response::new(CreateProjectResponse::decode(bytes).map_err(internal)?))
    }
}
