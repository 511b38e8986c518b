//! Projects and their members.

use sqlx::{FromRow, Row as _, postgres::PgRow, types::Json};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::{created, database::Database, failure::of_statement, id};
use crate::{
    auth::Caller,
    call::Call,
    failure, fields,
    proto::{
        AddProjectMemberRequest, AddProjectMemberResponse, CreateProjectRequest, CreateProjectResponse,
        DeleteProjectRequest, DeleteProjectResponse, GetProjectRequest, GetProjectResponse, ListProjectsRequest,
        ListProjectsResponse, Project, ProjectMember, project_service_server::ProjectService,
    },
};

const INSERT_PROJECT: &str =
    "INSERT INTO tenant.projects (cluster_id, name, alias, labels) VALUES ($1, $2, $3, $4) RETURNING id";

const INSERT_MEMBER: &str =
    "INSERT INTO tenant.project_members (project_id, user_id, role) VALUES ($1, $2, $3) RETURNING id";

/// Deletes its members and namespaces, too: the foreign keys say so.
const DELETE_PROJECT: &str = "DELETE FROM tenant.projects WHERE id = $1";

const SELECT_PROJECT: &str = "SELECT id, cluster_id, name, alias, labels, created FROM tenant.projects WHERE id = $1";

const SELECT_MEMBERS: &str =
    "SELECT id, user_id, role FROM tenant.project_members WHERE project_id = $1 ORDER BY id LIMIT 1000";

const SELECT_PROJECTS: &str =
    "SELECT id, cluster_id, name, alias, labels, created FROM tenant.projects ORDER BY id DESC LIMIT 1000";

/// The `ProjectService`.
#[derive(Debug)]
pub(super) struct Projects {
    database: Database,
}

impl Projects {
    pub(super) fn new(database: Database) -> Self {
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
        let labels = fields::labels("labels", &request.labels)?;

        let mut connection = self.database.create(&call).await?;
        let insert = self.database.query_scalar(INSERT_PROJECT).bind(cluster).bind(name).bind(alias).bind(Json(labels));
        let project: Uuid = insert.fetch_one(&mut *connection).await.map_err(of_statement)?;
        self.database.created(&call, connection, "project", project).await?;
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

        let mut connection = self.database.create(&call).await?;
        let insert = self.database.query_scalar(INSERT_MEMBER).bind(project).bind(user).bind(role);
        let member: Uuid = insert.fetch_one(&mut *connection).await.map_err(of_statement)?;
        self.database.created(&call, connection, "project_member", member).await?;
        Ok(Response::new(AddProjectMemberResponse { member_id: member.to_string() }))
    }

    async fn delete_project(
        &self,
        request: Request<DeleteProjectRequest>,
    ) -> Result<Response<DeleteProjectResponse>, Status> {
        let call = Call::of(&request)?;
        let project = fields::uuid("project_id", &request.get_ref().project_id)?;

        let mut connection = self.database.write(&call).await?;
        // No row is a success: the project is gone, by an earlier attempt that the layer may have forgotten.
        let deleted =
            self.database.query(DELETE_PROJECT).bind(project).execute(&mut *connection).await.map_err(of_statement)?;
        connection.done().await?;
        tracing::info!(%project, deleted = deleted.rows_affected(), user = %call.caller.user, "deleted");
        Ok(Response::new(DeleteProjectResponse {}))
    }

    async fn get_project(&self, request: Request<GetProjectRequest>) -> Result<Response<GetProjectResponse>, Status> {
        let caller = Caller::of(&request)?;
        let id = fields::uuid("project_id", &request.get_ref().project_id)?;

        let mut connection = self.database.read(caller).await?;
        let project = self
            .database
            .query_as(SELECT_PROJECT)
            .bind(id)
            .fetch_optional(&mut *connection)
            .await
            .map_err(of_statement)?;
        let project = project.ok_or_else(|| failure::not_found("project"))?;
        let members =
            self.database.query_as(SELECT_MEMBERS).bind(id).fetch_all(&mut *connection).await.map_err(of_statement)?;
        Ok(Response::new(GetProjectResponse { project: Some(project), members }))
    }

    async fn list_projects(
        &self,
        request: Request<ListProjectsRequest>,
    ) -> Result<Response<ListProjectsResponse>, Status> {
        let mut connection = self.database.read(Caller::of(&request)?).await?;
        let projects =
            self.database.query_as(SELECT_PROJECTS).fetch_all(&mut *connection).await.map_err(of_statement)?;
        Ok(Response::new(ListProjectsResponse { projects }))
    }
}

impl FromRow<'_, PgRow> for Project {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        let Json(labels) = row.try_get("labels")?;
        Ok(Self {
            id: id(row, "id")?,
            cluster_id: id(row, "cluster_id")?,
            name: row.try_get("name")?,
            alias: row.try_get("alias")?,
            labels,
            created: created(row)?,
        })
    }
}

impl FromRow<'_, PgRow> for ProjectMember {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: id(row, "id")?, user_id: id(row, "user_id")?, role: row.try_get("role")? })
    }
}
