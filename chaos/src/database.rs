//! The PostgreSQL server that the harness kills.

use std::{net::SocketAddr, time::Duration};

use scratch_postgres::{Server, Source};
use tokio::{sync::Mutex, time};
use tokio_postgres::{Client, Config, NoTls};

use crate::error::Error;

/// The time that a connection of the harness itself may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The time that the database may take to be killed or to come back.
const PATIENCE: Duration = Duration::from_secs(60);

/// The harness's own PostgreSQL server. It keeps committed data when it is killed.
#[derive(Debug)]
pub(crate) struct Database {
    address: SocketAddr,
    server: Mutex<Server>,
    url: String,
}

impl Database {
    /// Starts the server.
    ///
    /// # Errors
    ///
    /// The server binaries are not installed, or the server does not start.
    pub(crate) async fn start() -> Result<Self, Error> {
        let server = Server::start_durable(&[Source::Installed]).await.map_err(|error| {
            format!(
                "the harness kills its own PostgreSQL server, and needs the server binaries (initdb and postgres) for \
                 that: on Debian and Ubuntu `apt-get install postgresql`, on macOS `brew install postgresql`.\n{error}"
            )
        })?;
        let url = server.url().to_owned();
        let config: Config = url.parse()?;
        let port = config.get_ports().first().copied().ok_or("the server has no port")?;
        Ok(Self { address: SocketAddr::from(([127, 0, 0, 1], port)), server: Mutex::new(server), url })
    }

    /// The address that the server listens on while it runs.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The superuser's URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The superuser's URL with another address, such as a proxy's.
    pub(crate) fn url_through(&self, address: SocketAddr) -> String {
        self.url.replacen(&format!("@{}/", self.address), &format!("@{address}/"), 1)
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
