//! Namespaces.

use sqlx::{FromRow, Row as _, postgres::PgRow};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::{created, database::Database, failure::of_statement, id};
use crate::{
    auth::Caller,
    call::Call,
    fields,
    proto::{
        CreateNamespaceRequest, CreateNamespaceResponse, ListNamespacesRequest, ListNamespacesResponse, Namespace,
        namespace_service_server::NamespaceService,
    },
};

const INSERT_NAMESPACE: &str = "INSERT INTO tenant.namespaces (project_id, name) VALUES ($1, $2) RETURNING id";

const SELECT_NAMESPACES: &str =
    "SELECT id, project_id, name, created FROM tenant.namespaces WHERE project_id = $1 ORDER BY id DESC LIMIT 1000";

/// The `NamespaceService`.
#[derive(Debug)]
pub(super) struct Namespaces {
    database: Database,
}

impl Namespaces {
    pub(super) fn new(database: Database) -> Self {
        Self { database }
    }
}

#[tonic::async_trait]
impl NamespaceService for Namespaces {
    async fn create_namespace(
        &self,
        request: Request<CreateNamespaceRequest>,
    ) -> Result<Response<CreateNamespaceResponse>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let project = fields::uuid("project_id", &request.project_id)?;
        let name = fields::text("name", &request.name)?;

        let mut connection = self.database.create(&call).await?;
        let insert = self.database.query_scalar(INSERT_NAMESPACE).bind(project).bind(name);
        let namespace: Uuid = insert.fetch_one(&mut *connection).await.map_err(of_statement)?;
        self.database.created(&call, connection, "namespace", namespace).await?;
        Ok(Response::new(CreateNamespaceResponse { namespace_id: namespace.to_string() }))
    }

    async fn list_namespaces(
        &self,
        request: Request<ListNamespacesRequest>,
    ) -> Result<Response<ListNamespacesResponse>, Status> {
        let caller = Caller::of(&request)?;
        let project = fields::uuid("project_id", &request.get_ref().project_id)?;

        let mut connection = self.database.read(caller).await?;
        let select = self.database.query_as(SELECT_NAMESPACES).bind(project);
        let namespaces = select.fetch_all(&mut *connection).await.map_err(of_statement)?;
        Ok(Response::new(ListNamespacesResponse { namespaces }))
    }
}

impl FromRow<'_, PgRow> for Namespace {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: id(row, "id")?,
            project_id: id(row, "project_id")?,
            name: row.try_get("name")?,
            created: created(row)?,
        })
    }
}
