//! PostgreSQL servers under Patroni, and their failovers.

use std::{net::SocketAddr, time::Duration};

use scratch_postgres::{Patroni as Servers, Replication as Commits};
use tokio::time;

use super::until::until;
use crate::{
    choice::{Front, Replication},
    error::Error,
    fault::Failover,
};

/// The time in which there must be another primary, and all servers must be there again.
const PATIENCE: Duration = Duration::from_secs(180);

/// The time after which servers that are not there again are started anew.
const REPAIR: Duration = Duration::from_secs(45);

/// How long standbys lag: longer than the store waits for a shared statement.
const LAG: Duration = Duration::from_secs(3);

/// Three PostgreSQL servers, one of which Patroni makes the primary.
#[derive(Debug)]
pub(crate) struct Patroni {
    front: Front,
    replication: Replication,
    servers: Servers,
}

impl Patroni {
    /// Starts the servers.
    pub(super) async fn start(front: Front, replication: Replication) -> Result<Self, Error> {
        if let Some(why) = Servers::missing() {
            return Err(format!("`--topology patroni` needs Patroni. {why}").into());
        }
        let commits = match replication {
            Replication::Asynchronous => Commits::Asynchronous,
            Replication::Synchronous => Commits::Synchronous,
        };
        Ok(Self { front, replication, servers: Servers::start(commits).await? })
    }

    /// The addresses that connections have to know.
    pub(super) fn entrances(&self) -> Vec<SocketAddr> {
        match self.front {
            Front::Haproxy => vec![self.servers.front()],
            Front::Hosts => self.servers.addresses(),
        }
    }

    /// The superuser's URL.
    pub(super) fn url(&self) -> String {
        self.servers.url_of(&self.entrances())
    }

    /// The superuser's URL through these proxies.
    pub(super) fn url_of(&self, proxies: &[SocketAddr]) -> String {
        self.servers.url_of(proxies)
    }

    pub(super) fn ended(&self) -> Option<String> {
        self.servers.ended()
    }

    /// Waits until a standby may take over from the primary. With synchronous replication the others may still be on their way back. With
    /// asynchronous replication all servers have to be there: Patroni promotes none while a former primary has more log than the
    /// others and is not rewound.
    pub(crate) async fn can_fail_over(&self) -> Result<(), Error> {
        match self.replication {
            Replication::Asynchronous => self.is_whole().await,
            Replication::Synchronous => {
                self.repair("no standby follows the primary", || self.servers.can_fail_over()).await
            }
        }
    }

    /// Waits until all servers are there and follow the primary.
    pub(super) async fn is_whole(&self) -> Result<(), Error> {
        self.repair("the servers are not all there again", || self.servers.is_whole()).await
    }

    /// Waits until a condition is true, and starts what is stuck anew from time to time.
    async fn repair<F: Future<Output = bool>>(&self, otherwise: &str, condition: impl Fn() -> F) -> Result<(), Error> {
        let waiting = until(PATIENCE, otherwise, condition);
        let repairing = async {
            loop {
                time::sleep(REPAIR).await;
                if let Err(error) = self.servers.restart_stuck().await {
                    break error;
                }
            }
        };
        tokio::select! {
            done = waiting => done,
            error = repairing => Err(error.into()),
        }
    }

    /// Replaces the primary. Returns when there is a new one.
    pub(crate) async fn fail_over(&self, how: Failover) -> Result<(), Error> {
        until(PATIENCE, "no server is the primary", || async { self.servers.primary().await.is_some() }).await?;
        let primary = self.servers.primary().await.ok_or("the primary has just been lost")?;
        match how {
            Failover::CutOff | Failover::Hang => {
                match how {
                    Failover::CutOff => self.servers.freeze(primary).await?,
                    _ => self.servers.hang(primary).await?,
                }
                let replaced = self.is_replaced(primary).await;
                self.servers.thaw(primary).await?;
                replaced
            }
            Failover::Kill => {
                self.servers.kill(primary).await?;
                self.comes_back(primary).await
            }
            Failover::Lag => {
                self.servers.stall().await?;
                time::sleep(LAG).await;
                self.servers.kill(primary).await?;
                self.servers.lose().await?;
                self.comes_back(primary).await
            }
            Failover::Switchover => {
                // Patroni may refuse it for a moment.
                let is_ordered = || async {
                    self.servers.switch_over(primary).await.is_ok() || self.servers.primary().await != Some(primary)
                };
                until(PATIENCE, "no switchover succeeded", is_ordered).await?;
                self.is_replaced(primary).await
            }
        }
    }

    /// Starts a primary that was killed, when there is a new one.
    async fn comes_back(&self, primary: usize) -> Result<(), Error> {
        let replaced = self.is_replaced(primary).await;
        self.servers.start_again(primary).await?;
        replaced
    }

    async fn is_replaced(&self, former: usize) -> Result<(), Error> {
        let is_replaced = || async { self.servers.primary().await.is_some_and(|primary| primary != former) };
        until(PATIENCE, "no standby was promoted", is_replaced).await
    }

    /// Stops the servers, and waits until they are gone.
    pub(super) async fn stop(self) {
        // The drop blocks its thread.
        let _ = tokio::task::spawn_blocking(|| drop(self)).await;
    }
}
