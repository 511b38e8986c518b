use std::{net::SocketAddr, time::Duration};

use scratch_postgres::{Server, Source};
use tokio::{sync::Mutex, time};
use tokio_postgres::{Client, Config, NoTls};

use crate::error::Error;

/// How long a connection of the harness's own may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the database may take to be killed or to come back.
const PATIENCE: Duration = Duration::from_secs(60);

/// A PostgreSQL server of the harness's own, which keeps what was committed when it is killed.
#[derive(Debug)]
pub(crate) struct Database {
    address: SocketAddr,
    server: Mutex<Server>,
    url: String,
}

impl Database {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// There are no server binaries, or the server does not come up.
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

    /// Where it listens, dead or alive.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The superuser's URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The superuser's URL by way of somebody else.
    pub(crate) fn url_through(&self, address: SocketAddr) -> String {
        self.url.replacen(&format!("@{}/", self.address), &format!("@{address}/"), 1)
    }

    /// A superuser's connection, past every proxy.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        let connecting = time::timeout(CONNECT, tokio_postgres::connect(&self.url, NoTls)).await;
        let (client, connection) = connecting.map_err(|_| "the database does not answer")??;
        // Ends with the client.
        tokio::spawn(connection);
        Ok(client)
    }

    /// Kills every process of the server, and starts it again after `down`.
    ///
    /// # Errors
    ///
    /// It cannot be killed, or does not come up again.
    pub(crate) async fn crash(&self, down: Duration) -> Result<(), Error> {
        let crashing = async {
            let mut server = self.server.lock().await;
            server.kill().await?;
            time::sleep(down).await;
            Ok(server.restart().await?)
        };
        time::timeout(PATIENCE, crashing).await.unwrap_or_else(|_| Err("the database does not come back".into()))
    }

    /// Stops it, and waits until nothing of it is left.
    pub(crate) async fn stop(self) {
        self.server.into_inner().stop().await;
    }
}
