//! The handler of all contenders: the sample's CreateProject.

use organization::{Database, proto::project_service_server::ProjectService as _};
use tonic::{Request, Response, Status};

use super::proto::{CreateProjectRequest, CreateProjectResponse, project_service_server::ProjectService};

/// The sample's handler, which inserts a project. The response returns the payload of the request.
#[derive(Debug)]
pub(crate) struct Projects(organization::Projects);

impl Projects {
    pub(crate) fn new(database: Database) -> Self {
        Self(organization::Projects::new(database))
    }
}

#[tonic::async_trait]
impl ProjectService for Projects {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let create = organization::proto::CreateProjectRequest {
            cluster_id: request.cluster_id,
            name: request.name,
            ..Default::default()
        };
        let created = self.0.create_project(Request::from_parts(metadata, extensions, create)).await?;
        let project_id = created.into_inner().project_id;
        Ok(Response::new(CreateProjectResponse { project_id, payload: request.payload }))
    }
}
