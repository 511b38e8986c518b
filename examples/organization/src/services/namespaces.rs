//! Namespaces.

use tokio_postgres::{Row, types::Type};
use tonic::{Request, Response, Status};

use crate::{
    auth::Caller,
    call::Call,
    database::{Database, Insert},
    fields,
    proto::{
        CreateNamespaceRequest, CreateNamespaceResponse, ListNamespacesRequest, ListNamespacesResponse, Namespace,
        namespace_service_server::NamespaceService,
    },
    services::{column, created, id},
};

const INSERT_NAMESPACE: Insert = Insert {
    resource: "namespace",
    sql: "INSERT INTO tenant.namespaces (project_id, name) VALUES ($1, $2) RETURNING id",
};

const SELECT_NAMESPACES: &str =
    "SELECT id, project_id, name, created FROM tenant.namespaces WHERE project_id = $1 ORDER BY id DESC LIMIT 1000";

/// The `NamespaceService`.
#[derive(Debug)]
pub(crate) struct Namespaces {
    database: Database,
}

impl Namespaces {
    pub(crate) fn new(database: Database) -> Self {
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
        let namespace =
            self.database.create(&call, &INSERT_NAMESPACE, &[(&project, Type::UUID), (&name, Type::TEXT)]).await?;
        Ok(Response::new(CreateNamespaceResponse { namespace_id: namespace.to_string() }))
    }

    async fn list_namespaces(
        &self,
        request: Request<ListNamespacesRequest>,
    ) -> Result<Response<ListNamespacesResponse>, Status> {
        let caller = Caller::of(&request)?;
        let project = fields::uuid("project_id", &request.get_ref().project_id)?;
        let rows = self.database.select(caller, SELECT_NAMESPACES, &[(&project, Type::UUID)]).await?;
        Ok(Response::new(ListNamespacesResponse {
            namespaces: rows.iter().map(to_namespace).collect::<Result<_, _>>()?,
        }))
    }
}

fn to_namespace(row: &Row) -> Result<Namespace, Status> {
    Ok(Namespace {
        id: id(row, "id")?,
        project_id: id(row, "project_id")?,
        name: column(row, "name")?,
        created: created(row)?,
    })
}
