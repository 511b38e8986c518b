//! The handler in the product of the Go interceptor, whose pool sets the user: BEGIN, the INSERT, COMMIT.

use tokio_postgres::types::Type;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::{
    super::{
        handler::{INSERT, caller, internal, uuid},
        proto::{CreateProjectRequest, CreateProjectResponse, project_service_server::ProjectService},
    },
    connections::Connections,
};

/// A handler that inserts a project, as [`Projects`](super::super::handler::Projects) does, on a connection of the Go server's pool.
#[derive(Debug)]
pub(crate) struct ProductProjects {
    connections: Connections,
}

impl ProductProjects {
    pub(crate) fn new(connections: Connections) -> Self {
        Self { connections }
    }
}

#[tonic::async_trait]
impl ProjectService for ProductProjects {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let connection = self.connections.acquire(caller(&request)?).await?;
        let CreateProjectRequest { cluster_id, name, payload } = request.into_inner();
        connection.execute("begin").await?;
        let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(&uuid(&cluster_id)?, Type::UUID), (&name, Type::TEXT)];
        let inserted = connection.query(INSERT, &parameters).await?;
        connection.execute("commit").await?;
        let row = inserted.first().ok_or_else(|| Status::internal("no row"))?;
        let id: Uuid = row.try_get(0).map_err(internal)?;
        Ok(Response::new(CreateProjectResponse { project_id: id.to_string(), payload }))
    }
}
