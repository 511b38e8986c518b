//! The PostgreSQL server that the harness kills.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use scratch_postgres::{Server, Source};
use tcp_proxy::Proxy;
use tokio::{sync::Mutex, time};
use tokio_postgres::{Client, Config, NoTls};

use crate::{bouncer::Bouncer, error::Error, plan::Plan, urls::Urls};

/// The time that a connection of the harness itself may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The time that the database may take to be killed or to come back.
const PATIENCE: Duration = Duration::from_secs(60);

/// The isolation level of every transaction that does not say another one.
const SERIALIZABLE: &str = "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'";

/// The harness's own PostgreSQL server, and the PgBouncer in front of it, if there is one. The server keeps committed data
/// when it is killed.
#[derive(Debug)]
pub(crate) struct Database {
    address: SocketAddr,
    bouncer: Option<Bouncer>,
    server: Mutex<Server>,
    url: String,
}

impl Database {
    /// Starts the server, and a PgBouncer, if the plan says so.
    ///
    /// # Errors
    ///
    /// The binaries of one of them are not installed, or it does not start.
    pub(crate) async fn start(plan: &Plan) -> Result<Self, Error> {
        let server = Server::start_durable(&[Source::Installed]).await.map_err(|error| {
            format!(
                "the harness kills its own PostgreSQL server, and needs the server binaries (initdb and postgres) for \
                 that: on Debian and Ubuntu `apt-get install postgresql`, on macOS `brew install postgresql`.\n{error}"
            )
        })?;
        let url = server.url().to_owned();
        let config: Config = url.parse()?;
        let port = config.get_ports().first().copied().ok_or("the server has no port")?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut database = Self { address, bouncer: None, server: Mutex::new(server), url };
        let mut owner = database.connect().await?;
        if plan.serializable {
            owner.batch_execute(SERIALIZABLE).await?;
        }
        if let Some(partitions) = plan.partitions.filter(|_| !plan.moving) {
            // Before the servers, whose migrations find nothing to do then.
            organization::migrations::run(&mut owner).await?;
            owner.batch_execute(&format!("SELECT tenant.idempotency_partition({partitions})")).await?;
        }
        if plan.pgbouncer {
            database.bouncer = Some(Bouncer::start(&owner, &config, address).await?);
        }
        Ok(database)
    }

    /// The address for the servers' connections: the server's, or PgBouncer's.
    pub(crate) fn entrance(&self) -> SocketAddr {
        self.bouncer.as_ref().map_or(self.address, Bouncer::address)
    }

    /// The proxy between PgBouncer and the server.
    pub(crate) fn behind_bouncer(&self) -> Option<&Arc<Proxy>> {
        self.bouncer.as_ref().map(Bouncer::behind)
    }

    /// The superuser's URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The URLs of a server, through a proxy of the [entrance](Self::entrance). Behind PgBouncer these are the API's own
    /// connections alone: what a server does at its start, and its worker, go directly to the database, as people
    /// configure it.
    pub(crate) fn urls_through(&self, proxy: SocketAddr) -> Urls {
        let through = |url: &str| url.replacen(&format!("@{}/", self.entrance()), &format!("@{proxy}/"), 1);
        match &self.bouncer {
            Some(bouncer) => Urls { api: Some(through(bouncer.url())), database: self.url.clone() },
            None => Urls { api: None, database: through(&self.url) },
        }
    }

    /// Connects as superuser, not through a proxy.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        let connecting = time::timeout(CONNECT, tokio_postgres::connect(&self.url, NoTls)).await;
        let (client, connection) = connecting.map_err(|_| "the database does not answer")??;
        // The task ends with the client.
        tokio::spawn(connection);
        Ok(client)
    }

    /// Kills every process of the server, and starts it again after `down`.
    ///
    /// # Errors
    ///
    /// The server cannot be killed, or does not start again.
    pub(crate) async fn crash(&self, down: Duration) -> Result<(), Error> {
        let crashing = async {
            let mut server = self.server.lock().await;
            server.kill().await?;
            time::sleep(down).await;
            Ok(server.restart().await?)
        };
        time::timeout(PATIENCE, crashing).await.unwrap_or_else(|_| Err("the database does not come back".into()))
    }

    /// Stops the server, and waits until all of it is gone.
    pub(crate) async fn stop(self) {
        self.server.into_inner().stop().await;
    }
}
