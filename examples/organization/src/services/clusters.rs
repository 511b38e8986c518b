//! Clusters, node pools, nodes and installs.

use std::time::SystemTime;

use tokio_postgres::{Row, types::Type};
use tonic::{Request, Response, Status, metadata::MetadataValue};

use crate::{
    auth::Caller,
    call::{Call, REPLAYED},
    database::{Database, Insert},
    failure, fields,
    proto::{
        AddInstallRequest, AddInstallResponse, Cluster, CreateClusterRequest, CreateClusterResponse,
        CreateNodePoolRequest, CreateNodePoolResponse, GetClusterRequest, GetClusterResponse, Install,
        ListClustersRequest, ListClustersResponse, Node, NodePool, RegisterNodeRequest, RegisterNodeResponse,
        cluster_service_server::ClusterService,
    },
    services::{column, created, id},
    statement::Parameters,
};

const INSERT_CLUSTER: Insert =
    Insert { resource: "cluster", sql: "INSERT INTO tenant.clusters (name, region) VALUES ($1, $2) RETURNING id" };

const INSERT_NODE_POOL: Insert = Insert {
    resource: "node_pool",
    sql: "INSERT INTO tenant.node_pools (cluster_id, name, machine_type, nodes) VALUES ($1, $2, $3, $4) RETURNING id",
};

const INSERT_INSTALL: Insert = Insert {
    resource: "install",
    sql: "INSERT INTO tenant.installs (cluster_id, name, version) VALUES ($1, $2, $3) RETURNING id",
};

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
pub(crate) struct Clusters {
    database: Database,
}

impl Clusters {
    pub(crate) fn new(database: Database) -> Self {
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
        let cluster =
            self.database.create(&call, &INSERT_CLUSTER, &[(&name, Type::TEXT), (&region, Type::TEXT)]).await?;
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
        let node_pool = self
            .database
            .create(
                &call,
                &INSERT_NODE_POOL,
                &[(&cluster, Type::UUID), (&name, Type::TEXT), (&machine_type, Type::TEXT), (&nodes, Type::INT4)],
            )
            .await?;
        Ok(Response::new(CreateNodePoolResponse { node_pool_id: node_pool.to_string() }))
    }

    async fn add_install(&self, request: Request<AddInstallRequest>) -> Result<Response<AddInstallResponse>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let cluster = fields::uuid("cluster_id", &request.cluster_id)?;
        let name = fields::text("name", &request.name)?;
        let version = fields::text("version", &request.version)?;
        let install = self
            .database
            .create(&call, &INSERT_INSTALL, &[(&cluster, Type::UUID), (&name, Type::TEXT), (&version, Type::TEXT)])
            .await?;
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
        let parameters: Parameters<'_> = &[(&id, Type::TEXT), (&cluster, Type::UUID), (&machine_type, Type::TEXT)];
        let registered = self.database.execute(&call, INSERT_NODE, parameters).await?;
        let rows = self.database.query(&call, SELECT_NODE, parameters).await?;
        // The layer compares requests only as long as it remembers the first one.
        let node = rows.first().ok_or_else(|| Status::already_exists("another node has this id; check the id"))?;
        let mut response = Response::new(RegisterNodeResponse { node: Some(to_node(node)?) });
        if registered == 0 {
            response.metadata_mut().insert(REPLAYED, MetadataValue::from_static("true"));
        }
        Ok(response)
    }

    async fn get_cluster(&self, request: Request<GetClusterRequest>) -> Result<Response<GetClusterResponse>, Status> {
        let caller = Caller::of(&request)?;
        let cluster = fields::uuid("cluster_id", &request.get_ref().cluster_id)?;
        let parameters: Parameters<'_> = &[(&cluster, Type::UUID)];
        let rows = self.database.select(caller, SELECT_CLUSTER, parameters).await?;
        let cluster = rows.first().ok_or_else(|| failure::not_found("cluster"))?;
        let node_pools = self.database.select(caller, SELECT_NODE_POOLS, parameters).await?;
        let installs = self.database.select(caller, SELECT_INSTALLS, parameters).await?;
        let nodes = self.database.select(caller, SELECT_NODES, parameters).await?;
        Ok(Response::new(GetClusterResponse {
            cluster: Some(to_cluster(cluster)?),
            node_pools: node_pools.iter().map(to_node_pool).collect::<Result<_, _>>()?,
            installs: installs.iter().map(to_install).collect::<Result<_, _>>()?,
            nodes: nodes.iter().map(to_node).collect::<Result<_, _>>()?,
        }))
    }

    async fn list_clusters(
        &self,
        request: Request<ListClustersRequest>,
    ) -> Result<Response<ListClustersResponse>, Status> {
        let rows = self.database.select(Caller::of(&request)?, SELECT_CLUSTERS, &[]).await?;
        Ok(Response::new(ListClustersResponse { clusters: rows.iter().map(to_cluster).collect::<Result<_, _>>()? }))
    }
}

fn to_cluster(row: &Row) -> Result<Cluster, Status> {
    Ok(Cluster {
        id: id(row, "id")?,
        name: column(row, "name")?,
        region: column(row, "region")?,
        created: created(row)?,
    })
}

fn to_node_pool(row: &Row) -> Result<NodePool, Status> {
    Ok(NodePool {
        id: id(row, "id")?,
        name: column(row, "name")?,
        machine_type: column(row, "machine_type")?,
        nodes: column(row, "nodes")?,
    })
}

fn to_node(row: &Row) -> Result<Node, Status> {
    let registered = column::<SystemTime>(row, "registered")?;
    Ok(Node { id: column(row, "id")?, machine_type: column(row, "machine_type")?, registered: Some(registered.into()) })
}

fn to_install(row: &Row) -> Result<Install, Status> {
    Ok(Install { id: id(row, "id")?, name: column(row, "name")?, version: column(row, "version")? })
}
