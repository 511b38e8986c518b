//! Projects and their members.

use std::collections::HashMap;

use tokio_postgres::{
    Row,
    types::{Json, Type},
};
use tonic::{Request, Response, Status};

use crate::{
    auth::Caller,
    call::Call,
    database::{Database, Insert},
    failure, fields,
    proto::{
        AddProjectMemberRequest, AddProjectMemberResponse, CreateProjectRequest, CreateProjectResponse,
        DeleteProjectRequest, DeleteProjectResponse, GetProjectRequest, GetProjectResponse, ListProjectsRequest,
        ListProjectsResponse, Project, ProjectMember, project_service_server::ProjectService,
    },
    services::{column, created, id},
    statement::Parameters,
};

const INSERT_PROJECT: Insert = Insert {
    resource: "project",
    sql: "INSERT INTO tenant.projects (cluster_id, name, alias, labels) VALUES ($1, $2, $3, $4) RETURNING id",
};

const INSERT_MEMBER: Insert = Insert {
    resource: "project_member",
    sql: "INSERT INTO tenant.project_members (project_id, user_id, role) VALUES ($1, $2, $3) RETURNING id",
};

/// Deletes its members and namespaces, too: the foreign keys say so.
const DELETE_PROJECT: &str = "DELETE FROM tenant.projects WHERE id = $1";

const SELECT_PROJECT: &str = "SELECT id, cluster_id, name, alias, labels, created FROM tenant.projects WHERE id = $1";

const SELECT_MEMBERS: &str =
    "SELECT id, user_id, role FROM tenant.project_members WHERE project_id = $1 ORDER BY id LIMIT 1000";

const SELECT_PROJECTS: &str =
    "SELECT id, cluster_id, name, alias, labels, created FROM tenant.projects ORDER BY id DESC LIMIT 1000";

/// The `ProjectService` without authentication: its requests need a [`Caller`] in their extensions.
#[derive(Debug)]
pub struct Projects {
    database: Database,
}

impl Projects {
    /// Creates the service on this database.
    pub fn new(database: Database) -> Self {
        Self { database }
    }
}

#[tonic::async_trait]
impl ProjectService for Projects {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let cluster = fields::uuid("cluster_id", &request.cluster_id)?;
        let name = fields::text("name", &request.name)?;
        let alias = fields::optional_text("alias", request.alias.as_deref())?;
        let labels = Json(fields::labels("labels", &request.labels)?);
        let project = self
            .database
            .create(
                &call,
                &INSERT_PROJECT,
                &[(&cluster, Type::UUID), (&name, Type::TEXT), (&alias, Type::TEXT), (&labels, Type::JSONB)],
            )
            .await?;
        Ok(Response::new(CreateProjectResponse { project_id: project.to_string() }))
    }

    async fn add_project_member(
        &self,
        request: Request<AddProjectMemberRequest>,
    ) -> Result<Response<AddProjectMemberResponse>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let project = fields::uuid("project_id", &request.project_id)?;
        let user = fields::uuid("user_id", &request.user_id)?;
        let role = fields::role("role", &request.role)?;
        let member = self
            .database
            .create(&call, &INSERT_MEMBER, &[(&project, Type::UUID), (&user, Type::UUID), (&role, Type::TEXT)])
            .await?;
        Ok(Response::new(AddProjectMemberResponse { member_id: member.to_string() }))
    }

    async fn delete_project(
        &self,
        request: Request<DeleteProjectRequest>,
    ) -> Result<Response<DeleteProjectResponse>, Status> {
        let call = Call::of(&request)?;
        let project = fields::uuid("project_id", &request.get_ref().project_id)?;
        // No row is a success: the project is gone, by an earlier attempt that the layer may have forgotten.
        let deleted = self.database.execute(&call, DELETE_PROJECT, &[(&project, Type::UUID)]).await?;
        tracing::info!(%project, deleted, user = %call.caller.user, "deleted");
        Ok(Response::new(DeleteProjectResponse {}))
    }

    async fn get_project(&self, request: Request<GetProjectRequest>) -> Result<Response<GetProjectResponse>, Status> {
        let caller = Caller::of(&request)?;
        let project = fields::uuid("project_id", &request.get_ref().project_id)?;
        let parameters: Parameters<'_> = &[(&project, Type::UUID)];
        let rows = self.database.select(caller, SELECT_PROJECT, parameters).await?;
        let project = rows.first().ok_or_else(|| failure::not_found("project"))?;
        let members = self.database.select(caller, SELECT_MEMBERS, parameters).await?;
        Ok(Response::new(GetProjectResponse {
            project: Some(to_project(project)?),
            members: members.iter().map(to_member).collect::<Result<_, _>>()?,
        }))
    }

    async fn list_projects(
        &self,
        request: Request<ListProjectsRequest>,
    ) -> Result<Response<ListProjectsResponse>, Status> {
        let rows = self.database.select(Caller::of(&request)?, SELECT_PROJECTS, &[]).await?;
        Ok(Response::new(ListProjectsResponse { projects: rows.iter().map(to_project).collect::<Result<_, _>>()? }))
    }
}

fn to_project(row: &Row) -> Result<Project, Status> {
    let Json(labels) = column::<Json<HashMap<String, String>>>(row, "labels")?;
    Ok(Project {
        id: id(row, "id")?,
        cluster_id: id(row, "cluster_id")?,
        name: column(row, "name")?,
        alias: column(row, "alias")?,
        labels,
        created: created(row)?,
    })
}

fn to_member(row: &Row) -> Result<ProjectMember, Status> {
    Ok(ProjectMember { id: id(row, "id")?, user_id: id(row, "user_id")?, role: column(row, "role")? })
}
