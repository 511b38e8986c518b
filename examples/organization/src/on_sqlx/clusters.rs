//! Clusters, node pools, nodes and installs.

use sqlx::{FromRow, Row as _, postgres::PgRow};
use tonic::{Request, Response, Status, metadata::MetadataValue};
use uuid::Uuid;

use super::{created, database::Database, failure::of_statement, id, timestamp};
use crate::{
    auth::Caller,
    call::{Call, REPLAYED},
    failure, fields,
    proto::{
        AddInstallRequest, AddInstallResponse, Cluster, CreateClusterRequest, CreateClusterResponse,
        CreateNodePoolRequest, CreateNodePoolResponse, GetClusterRequest, GetClusterResponse, Install,
        ListClustersRequest, ListClustersResponse, Node, NodePool, RegisterNodeRequest, RegisterNodeResponse,
        cluster_service_server::ClusterService,
    },
};

const INSERT_CLUSTER: &str = "INSERT INTO tenant.clusters (name, region) VALUES ($1, $2) RETURNING id";

const INSERT_NODE_POOL: &str =
    "INSERT INTO tenant.node_pools (cluster_id, name, machine_type, nodes) VALUES ($1, $2, $3, $4) RETURNING id";

const INSERT_INSTALL: &str = "INSERT INTO tenant.installs (cluster_id, name, version) VALUES ($1, $2, $3) RETURNING id";

/// Changes nothing if the node is there: the primary key finds it when the layer has forgotten the first call.
const INSERT_NODE: &str = "INSERT INTO tenant.nodes (id, cluster_id, machine_type) VALUES ($1, $2, $3) \
     ON CONFLICT (organization_id, id) DO NOTHING";

const SELECT_NODE: &str = "SELECT id, machine_type, registered FROM tenant.nodes \
     WHERE id = $1 AND cluster_id = $2 AND machine_type = $3";

const SELECT_CLUSTER: &str = "SELECT id, name, region, created FROM tenant.clusters WHERE id = $1";

const SELECT_CLUSTERS: &str = "SELECT id, name, region, created FROM tenant.clusters ORDER BY id DESC LIMIT 1000";

const SELECT_NODE_POOLS: &str =
    "SELECT id, name, machine_type, nodes FROM tenant.node_pools WHERE cluster_id = $1 ORDER BY id LIMIT 1000";

const SELECT_INSTALLS: &str =
    "SELECT id, name, version FROM tenant.installs WHERE cluster_id = $1 ORDER BY id LIMIT 1000";

const SELECT_NODES: &str =
    "SELECT id, machine_type, registered FROM tenant.nodes WHERE cluster_id = $1 ORDER BY registered LIMIT 1000";

/// The `ClusterService`.
#[derive(Debug)]
pub(super) struct Clusters {
    database: Database,
}

impl Clusters {
    pub(super) fn new(database: Database) -> Self {
        Self { database }
    }
}

#[tonic::async_trait]
impl ClusterService for Clusters {
    async fn create_cluster(
        &self,
        request: Request<CreateClusterRequest>,
    ) -> Result<Response<CreateClusterResponse>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let name = fields::text("name", &request.name)?;
        let region = fields::text("region", &request.region)?;

        let mut connection = self.database.create(&call).await?;
        let insert = self.database.query_scalar(INSERT_CLUSTER).bind(name).bind(region);
        let cluster: Uuid = insert.fetch_one(&mut *connection).await.map_err(of_statement)?;
        self.database.created(&call, connection, "cluster", cluster).await?;
        Ok(Response::new(CreateClusterResponse { cluster_id: cluster.to_string() }))
    }

    async fn create_node_pool(
        &self,
        request: Request<CreateNodePoolRequest>,
    ) -> Result<Response<CreateNodePoolResponse>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let cluster = fields::uuid("cluster_id", &request.cluster_id)?;
        let name = fields::text("name", &request.name)?;
        let machine_type = fields::text("machine_type", &request.machine_type)?;
        let nodes = fields::positive("nodes", request.nodes)?;

        let mut connection = self.database.create(&call).await?;
        let insert =
            self.database.query_scalar(INSERT_NODE_POOL).bind(cluster).bind(name).bind(machine_type).bind(nodes);
        let node_pool: Uuid = insert.fetch_one(&mut *connection).await.map_err(of_statement)?;
        self.database.created(&call, connection, "node_pool", node_pool).await?;
        Ok(Response::new(CreateNodePoolResponse { node_pool_id: node_pool.to_string() }))
    }

    async fn add_install(&self, request: Request<AddInstallRequest>) -> Result<Response<AddInstallResponse>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let cluster = fields::uuid("cluster_id", &request.cluster_id)?;
        let name = fields::text("name", &request.name)?;
        let version = fields::text("version", &request.version)?;

        let mut connection = self.database.create(&call).await?;
        let insert = self.database.query_scalar(INSERT_INSTALL).bind(cluster).bind(name).bind(version);
        let install: Uuid = insert.fetch_one(&mut *connection).await.map_err(of_statement)?;
        self.database.created(&call, connection, "install", install).await?;
        Ok(Response::new(AddInstallResponse { install_id: install.to_string() }))
    }

    async fn register_node(
        &self,
        request: Request<RegisterNodeRequest>,
    ) -> Result<Response<RegisterNodeResponse>, Status> {
        let call = Call::of(&request)?;
        let RegisterNodeRequest { cluster_id, node } = request.into_inner();
        let Node { id, machine_type, .. } = node.unwrap_or_default();
        let cluster = fields::uuid("cluster_id", &cluster_id)?;
        let id = fields::own_id("node.id", &id)?;
        let machine_type = fields::text("node.machine_type", &machine_type)?;

        let mut connection = self.database.write(&call).await?;
        let insert = self.database.query(INSERT_NODE).bind(id).bind(cluster).bind(machine_type);
        let registered = insert.execute(&mut *connection).await.map_err(of_statement)?.rows_affected();
        let select = self.database.query_as(SELECT_NODE).bind(id).bind(cluster).bind(machine_type);
        let node = select.fetch_optional(&mut *connection).await.map_err(of_statement)?;
        connection.done().await?;
        // The layer compares requests only as long as it remembers the first one.
        let node = node.ok_or_else(|| Status::already_exists("another node has this id; check the id"))?;
        let mut response = Response::new(RegisterNodeResponse { node: Some(node) });
        if registered == 0 {
            response.metadata_mut().insert(REPLAYED, MetadataValue::from_static("true"));
        }
        Ok(response)
    }

    async fn get_cluster(&self, request: Request<GetClusterRequest>) -> Result<Response<GetClusterResponse>, Status> {
        let caller = Caller::of(&request)?;
        let id = fields::uuid("cluster_id", &request.get_ref().cluster_id)?;

        let mut connection = self.database.read(caller).await?;
        let cluster = self
            .database
            .query_as(SELECT_CLUSTER)
            .bind(id)
            .fetch_optional(&mut *connection)
            .await
            .map_err(of_statement)?;
        let cluster = cluster.ok_or_else(|| failure::not_found("cluster"))?;
        let node_pools = self
            .database
            .query_as(SELECT_NODE_POOLS)
            .bind(id)
            .fetch_all(&mut *connection)
            .await
            .map_err(of_statement)?;
        let installs =
            self.database.query_as(SELECT_INSTALLS).bind(id).fetch_all(&mut *connection).await.map_err(of_statement)?;
        let nodes =
            self.database.query_as(SELECT_NODES).bind(id).fetch_all(&mut *connection).await.map_err(of_statement)?;
        Ok(Response::new(GetClusterResponse { cluster: Some(cluster), node_pools, installs, nodes }))
    }

    async fn list_clusters(
        &self,
        request: Request<ListClustersRequest>,
    ) -> Result<Response<ListClustersResponse>, Status> {
        let mut connection = self.database.read(Caller::of(&request)?).await?;
        let clusters =
            self.database.query_as(SELECT_CLUSTERS).fetch_all(&mut *connection).await.map_err(of_statement)?;
        Ok(Response::new(ListClustersResponse { clusters }))
    }
}

impl FromRow<'_, PgRow> for Cluster {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: id(row, "id")?,
            name: row.try_get("name")?,
            region: row.try_get("region")?,
            created: created(row)?,
        })
    }
}

impl FromRow<'_, PgRow> for NodePool {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: id(row, "id")?,
            name: row.try_get("name")?,
            machine_type: row.try_get("machine_type")?,
            nodes: row.try_get("nodes")?,
        })
    }
}

impl FromRow<'_, PgRow> for Node {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            machine_type: row.try_get("machine_type")?,
            registered: timestamp(row, "registered")?,
        })
    }
}

impl FromRow<'_, PgRow> for Install {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: id(row, "id")?, name: row.try_get("name")?, version: row.try_get("version")? })
    }
}
