//! One PostgreSQL server, which the harness kills.

use std::{net::SocketAddr, time::Duration};

use scratch_postgres::{Server, Source};
use tokio::{sync::Mutex, time};
use tokio_postgres::Config;

use crate::error::Error;

/// The time that the server may take to be killed or to come back.
const PATIENCE: Duration = Duration::from_secs(60);

/// The harness's own PostgreSQL server. It keeps committed data when it is killed.
#[derive(Debug)]
pub(crate) struct Single {
    pub(super) address: SocketAddr,
    server: Mutex<Server>,
    pub(super) url: String,
}

impl Single {
    /// Starts the server.
    pub(super) async fn start() -> Result<Self, Error> {
        let server = Server::start_durable(&[Source::Installed]).await.map_err(|error| {
            format!(
                "the harness kills its own PostgreSQL server, and needs the server binaries (initdb and postgres) for \
                 that: on Debian and Ubuntu `apt-get install postgresql`, on macOS `brew install postgresql`.\n{error}"
            )
        })?;
        let url = server.url().to_owned();
        let port = url.parse::<Config>()?.get_ports().first().copied().ok_or("the server has no port")?;
        Ok(Self { address: SocketAddr::from(([127, 0, 0, 1], port)), server: Mutex::new(server), url })
    }

    /// Kills every process of the server, and starts it again after `down`.
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
    pub(super) async fn stop(self) {
        self.server.into_inner().stop().await;
    }
}
