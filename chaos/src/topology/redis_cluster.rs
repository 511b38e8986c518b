//! The Redis Cluster that keeps the records, and its failovers.

use std::{sync::Arc, time::Duration};

use scratch_redis::{Cluster, Server};
use tokio::{task::spawn_blocking, time};

use super::until::until;
use crate::{choice::Persistence, error::Error, fault::RedisFault, urls::Redis};

/// How long a primary may be silent before it is replaced, in milliseconds.
const NODE_TIMEOUT: u32 = 1000;

/// How long a replica has received nothing if it lags.
const LAG: Duration = Duration::from_millis(300);

/// The time in which there must be another primary.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Redis Cluster of three primaries, each with a replica.
#[derive(Debug)]
pub(crate) struct RedisCluster {
    cluster: Arc<Cluster>,
    /// The number of replicas that a write has to reach.
    replicas: u32,
}

impl RedisCluster {
    /// Starts the servers.
    pub(super) async fn start(persistence: Persistence, replicas: u32) -> Result<Self, Error> {
        if let Some(why) = scratch_redis::missing() {
            return Err(format!("`--topology redis-cluster` needs Redis: {why}").into());
        }
        let cluster = spawn_blocking(move || Cluster::start(NODE_TIMEOUT, persistence.lines())).await??;
        Ok(Self { cluster: Arc::new(cluster), replicas })
    }

    /// Returns the settings of the servers' stores.
    pub(super) fn urls(&self) -> Redis {
        Redis { replicas: self.replicas, urls: self.cluster.urls() }
    }

    /// Waits until the cluster takes writes, and each primary has a replica that follows.
    pub(crate) async fn is_whole(&self) -> Result<(), Error> {
        self.until("the cluster is not whole again", |cluster, _| cluster.is_settled(), 0).await
    }

    /// Breaks the primary of a slot. Returns when the slot has a new primary, or the same again.
    pub(crate) async fn break_primary(&self, slot: u16, how: RedisFault) -> Result<(), Error> {
        let pair = self.on(move |cluster| Pair::of(cluster, slot)).await?;
        let Pair { primary, replica } = pair.ok_or("the slot has no primary with a replica")?;
        let at = |node: usize, deed: fn(&Server)| self.on(move |cluster| deed(&cluster.nodes()[node]));
        let restarted = || self.on(move |cluster| cluster.nodes()[primary].restart());
        match how {
            RedisFault::Hang => {
                at(primary, Server::pause).await?;
                let replaced = self.is_replaced(replica).await;
                at(primary, Server::resume).await?;
                replaced
            }
            RedisFault::Kill => {
                at(primary, Server::kill).await?;
                self.is_replaced(replica).await?;
                Ok(restarted().await??)
            }
            RedisFault::Lag => {
                at(replica, Server::pause).await?;
                time::sleep(LAG).await;
                at(primary, Server::kill).await?;
                at(replica, Server::resume).await?;
                self.is_replaced(replica).await?;
                Ok(restarted().await??)
            }
            RedisFault::Restart => {
                at(primary, Server::kill).await?;
                Ok(restarted().await??)
            }
            RedisFault::Switchover => {
                at(replica, |replica| drop(replica.ask(&["CLUSTER", "FAILOVER"]))).await?;
                self.is_replaced(replica).await
            }
        }
    }

    async fn is_replaced(&self, replica: usize) -> Result<(), Error> {
        let is_primary = |cluster: &Cluster, node: usize| cluster.nodes()[node].ask(&["ROLE"]).starts_with("master");
        self.until("no replica took over", is_primary, replica).await
    }

    /// Waits until a condition holds.
    async fn until(&self, otherwise: &str, condition: fn(&Cluster, usize) -> bool, node: usize) -> Result<(), Error> {
        let holds = || async { self.on(move |cluster| condition(cluster, node)).await.unwrap_or_default() };
        until(PATIENCE, otherwise, holds).await
    }

    /// Does something to the cluster that blocks the thread.
    async fn on<T: Send + 'static>(&self, deed: impl FnOnce(&Cluster) -> T + Send + 'static) -> Result<T, Error> {
        let cluster = Arc::clone(&self.cluster);
        Ok(spawn_blocking(move || deed(&cluster)).await?)
    }

    /// Stops the servers, and waits until they are gone.
    pub(super) async fn stop(self) {
        let _ = spawn_blocking(|| drop(self)).await;
    }
}

/// The positions of a primary and its replica among the nodes.
struct Pair {
    primary: usize,
    replica: usize,
}

impl Pair {
    /// The pair that has a slot.
    fn of(cluster: &Cluster, slot: u16) -> Option<Self> {
        let (primary, replica) = cluster.pair(slot)?;
        let position = |server: &Server| cluster.nodes().iter().position(|node| node.address() == server.address());
        Some(Self { primary: position(primary)?, replica: position(replica)? })
    }
}
