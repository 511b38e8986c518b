//! The PostgreSQL server of the measurements, and the services that use it.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use deadpool_postgres::Pool;
use http::{Request, Response};
use organization::{ALICE, BOB, CLUSTER, Caller};
use scratch_postgres::{Server, Source};
use tokio::net::TcpListener;
use tokio_postgres::{Config, NoTls};
use tokio_util::task::AbortOnDropHandle;
use tonic::{
    Status,
    body::Body,
    metadata::MetadataValue,
    server::NamedService,
    service::{Routes, interceptor::InterceptedService},
    transport::{self, Channel, Endpoint, server::TcpIncoming},
};
use tonic_idempotency::{
    IdempotencyLayer, UserId,
    layer::IdempotencyLayerBuilder,
    policy::Procedure,
    store::{PostgresStore, PreparedStatements},
};
use tower::Service;
use tower_layer::Layer as _;
use uuid::Uuid;

use super::proto::{
    CreateProjectRequest, PROJECT,
    project_service_client::ProjectServiceClient,
    project_service_server::{ProjectService, ProjectServiceServer},
};
use super::{
    by_hand::ByHand,
    contender::{Contender, Guard, Layer},
    go_interceptor::GoInterceptor,
    handler::Projects,
    primary_key::PrimaryKey,
    usage::ServerProcesses,
};
use crate::error::Error;

/// A private PostgreSQL server on this machine, configured as in production, with the sample's tables and rows.
pub(crate) struct World {
    server: Server,
    superuser: tokio_postgres::Client,
    pub(crate) processes: ServerProcesses,
}

impl World {
    pub(crate) async fn start() -> Result<Self, Error> {
        let server = Server::start_as_deployed(&[Source::Installed]).await?;
        organization::bootstrap(server.url()).await?;
        let superuser = connect(server.url()).await?;
        superuser.batch_execute(include_str!("world.sql")).await?;
        let processes = ServerProcesses::of(&superuser).await?;
        Ok(Self { server, superuser, processes })
    }

    /// Describes the server in one line.
    pub(crate) fn describe(&self) -> &str {
        self.server.describe()
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> Result<SocketAddr, Error> {
        let config: Config = self.server.url().parse()?;
        let port = config.get_ports().first().copied().ok_or("the server has no port")?;
        Ok(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// A connection of the superuser.
    pub(crate) async fn connect(&self) -> Result<tokio_postgres::Client, Error> {
        connect(self.server.url()).await
    }

    /// Stores responses for [`PrimaryKey`].
    pub(crate) async fn record_responses(&self, keys: &[Uuid], response: &[u8]) -> Result<(), Error> {
        const INSERT: &str = "INSERT INTO benchmarks.responses (id, response) SELECT unnest($1::uuid[]), $2";
        self.superuser.execute(INSERT, &[&keys, &response]).await?;
        Ok(())
    }

    /// Marks the work behind everything that was created as done, in the outbox.
    pub(crate) async fn finish_all_work(&self) -> Result<(), Error> {
        const UPDATE: &str = "UPDATE authz.outbox SET status = 'completed' WHERE status IN ('pending', 'retrying')";
        self.superuser.execute(UPDATE, &[]).await?;
        Ok(())
    }

    /// Measures the median time of the shortest statement, with the server reached at this address.
    pub(crate) async fn round_trip(&self, database: SocketAddr, statements: usize) -> Result<Duration, Error> {
        let connection = self.pool(database)?.get().await?;
        let statement = connection.prepare("SELECT 1").await?;
        let mut times = Vec::with_capacity(statements);
        for _ in 0..statements {
            let asked = Instant::now();
            connection.query(&statement, &[]).await?;
            times.push(asked.elapsed());
        }
        times.sort();
        Ok(times[times.len() / 2])
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }

    /// Builds a contender's service, with the database reached at this address.
    pub(crate) fn routes(&self, contender: Contender, database: SocketAddr) -> Result<Routes, Error> {
        let pool = self.pool(database)?;
        Ok(match contender.guard {
            Guard::None => authenticated(ProjectServiceServer::new(Projects::new(pool))),
            Guard::ByHand(way) => authenticated(ProjectServiceServer::new(ByHand::new(pool, way))),
            Guard::PrimaryKey => authenticated(ProjectServiceServer::new(PrimaryKey::new(pool))),
            Guard::GoInterceptor => authenticated(ProjectServiceServer::new(GoInterceptor::new(pool))),
            Guard::Layer(layer) => {
                let handler = Projects::new(self.pool(database)?);
                behind_layer(handler, store(pool, layer), layer, |builder| builder)?
            }
        })
    }

    /// Creates a pool of connections as the API's own role, with the database reached at this address.
    pub(crate) fn pool(&self, database: SocketAddr) -> Result<Pool, Error> {
        organization::pool(&self.url(database)?)
    }

    /// The URL of the database as the role that the API logs in as, with the database reached at this address.
    pub(crate) fn url(&self, database: SocketAddr) -> Result<String, Error> {
        let config: Config = self.server.url().parse()?;
        let password = String::from_utf8_lossy(config.get_password().unwrap_or_default()).into_owned();
        Ok(format!("postgres://organization_login:{password}@{database}/postgres"))
    }
}

async fn connect(url: &str) -> Result<tokio_postgres::Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Builds the store of a layer.
pub(crate) fn store(pool: Pool, layer: Layer) -> PostgresStore {
    let store = PostgresStore::new(pool, organization::resource_types());
    let store = if layer.parses { store.prepared_statements(PreparedStatements::Never) } else { store };
    if layer.batches { store } else { store.max_batch(1) }
}

/// Puts the layer around a handler.
pub(crate) fn behind_layer(
    handler: impl ProjectService,
    store: PostgresStore,
    layer: Layer,
    adjust: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
) -> Result<Routes, Error> {
    let Layer { mode, effect, remembers, .. } = layer;
    let builder = IdempotencyLayer::builder(PROJECT).store(store).procedure(
        Procedure::builder("/benchmarks.database.v1.ProjectService/CreateProject").mode(mode).effect(effect),
    );
    let builder = if remembers { builder } else { builder.replay_cache_bytes(0) };
    Ok(authenticated(adjust(builder).build()?.layer(ProjectServiceServer::new(handler))))
}

/// Authenticates every call as [`user`] of its key; one user has at most half of the transactions.
#[derive(Clone, Copy)]
struct TwoUsers;

impl tonic::service::Interceptor for TwoUsers {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        let key = request.metadata().get("idempotency-key").and_then(|key| Uuid::try_parse_ascii(key.as_bytes()).ok());
        let user = user(key.ok_or_else(|| Status::invalid_argument("no key"))?);
        request.extensions_mut().insert(Caller { user });
        request.extensions_mut().insert(UserId::new(user));
        Ok(request)
    }
}

/// The user who calls with this key: one of two, as the last bit of the key says.
pub(crate) fn user(key: Uuid) -> Uuid {
    if key.as_u128().is_multiple_of(2) { ALICE } else { BOB }
}

/// Puts the authentication of both users around a service.
pub(crate) fn authenticated<S>(service: S) -> Routes
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    Routes::new(InterceptedService::new(service, TwoUsers))
}

/// The most calls that a connection of a client may have in flight.
const MAX_STREAMS: u32 = 16_384;

/// A service on a port of the loopback interface, and a client of it. The service runs until the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Served {
    channel: Channel,
    client: ProjectServiceClient<Channel>,
    _server: Arc<AbortOnDropHandle<Result<(), transport::Error>>>,
}

impl Served {
    pub(crate) async fn start(routes: Routes) -> Result<Self, Error> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let serving = transport::Server::builder()
            .max_concurrent_streams(Some(MAX_STREAMS))
            .add_routes(routes)
            .serve_with_incoming(incoming);
        let server = Arc::new(AbortOnDropHandle::new(tokio::spawn(serving)));
        let channel = Endpoint::try_from(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
        Ok(Self { client: ProjectServiceClient::new(channel.clone()), channel, _server: server })
    }

    /// The connection of the client.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Calls with this key, and checks the size of the response.
    pub(crate) async fn create_project(&mut self, key: Uuid, payload: Vec<u8>) -> Result<(), Error> {
        let size = payload.len();
        let mut request = tonic::Request::new(CreateProjectRequest {
            cluster_id: CLUSTER.to_string(),
            name: "project".to_owned(),
            payload,
        });
        request.metadata_mut().insert("idempotency-key", MetadataValue::try_from(key.to_string())?);
        let response = self.client.create_project(request).await?.into_inner();
        if response.payload.len() != size || response.project_id.len() != 36 {
            return Err("a call was not answered with its own response".into());
        }
        Ok(())
    }
}
