//! A coordinator and workers: private servers with Citus.

use tokio::sync::OnceCell;
use tokio_postgres::config::Host;

use crate::prelude::*;

/// The settings of each node. Few shards, because each is several files in every database. Each has a synchronous standby, which does not
/// answer; connections that set `synchronous_commit` wait for it.
const SETTINGS: [&str; 8] = [
    "shared_preload_libraries=citus",
    "max_prepared_transactions=100",
    "max_worker_processes=50",
    "citus.node_conninfo=sslmode=disable",
    "citus.recover_2pc_interval=1s",
    "citus.shard_count=8",
    "synchronous_commit=local",
    "synchronous_standby_names=nobody",
];

/// The role of the page that sets the nodes up. All nodes know it by the same password.
pub(super) const SUPERUSER: &str = "my_superuser";

/// The password of the page's roles.
pub(super) const PASSWORD: &str = "secret";

/// A coordinator, which has no rows of its own, and its workers.
pub(super) struct Cluster {
    pub(super) coordinator: Server,
    pub(super) workers: Vec<Server>,
}

impl Cluster {
    /// Starts one with two workers. `None`, and the test is skipped, where Citus is not installed.
    pub(super) async fn start() -> Option<Self> {
        match Self::new().await {
            Ok(cluster) => Some(cluster),
            Err(why) => {
                skip("citus", why);
                None
            }
        }
    }

    /// The one that the tests of this process share.
    pub(super) async fn shared() -> Option<&'static Self> {
        static SHARED: OnceCell<Result<Cluster, String>> = OnceCell::const_new();
        match SHARED.get_or_init(async || Self::new().await).await {
            Ok(cluster) => Some(cluster),
            Err(why) => {
                skip("citus", why);
                None
            }
        }
    }

    /// # Errors
    ///
    /// Citus is not installed, or there are no server binaries.
    async fn new() -> Result<Self, String> {
        Ok(Self { coordinator: node().await?, workers: vec![node().await?, node().await?] })
    }

    /// The addresses of all nodes, the coordinator's first.
    pub(super) fn places(&self) -> Vec<Place> {
        std::iter::once(&self.coordinator).chain(&self.workers).map(Place::of).collect()
    }
}

/// Starts a node, which knows [`SUPERUSER`].
async fn node() -> Result<Server, String> {
    let server = match Server::start_durable_with(&SETTINGS).await {
        Ok(server) => server,
        Err(error) => {
            let text = error.to_string();
            let missing = text.contains("could not access file \"citus\"") || text.contains("no directory has both");
            assert!(missing, "{text}");
            return Err("the extension citus is not installed".to_owned());
        }
    };
    let make = format!("CREATE ROLE {SUPERUSER} SUPERUSER LOGIN PASSWORD '{PASSWORD}'");
    connect(&server.url().parse().expect("an address")).await.batch_execute(&make).await.expect("the role is made");
    Ok(server)
}

/// The address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Place {
    pub(super) fn of(server: &Server) -> Self {
        let config: Config = server.url().parse().expect("an address");
        match (config.get_hosts(), config.get_ports()) {
            ([Host::Tcp(host)], [port]) => Self { host: host.clone(), port: *port },
            other => panic!("no TCP address: {other:?}"),
        }
    }

    /// The configuration of connections to a database of this node, as a role of the page.
    pub(super) fn config(&self, role: &str, database: &str) -> Config {
        let mut config = Config::new();
        config.host(&self.host).port(self.port).user(role).password(PASSWORD).dbname(database);
        config
    }

    /// Connects to it.
    pub(super) async fn connect(&self, role: &str, database: &str) -> Client {
        connect(&self.config(role, database)).await
    }
}

async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}
