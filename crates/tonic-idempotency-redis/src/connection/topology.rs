//! How the servers are found.

use std::{sync::Arc, time::Duration};

#[cfg(feature = "sentinel")]
use redis::sentinel::SentinelClient;
use redis::{
    AsyncConnectionConfig, Client, Pipeline, RedisError, ServerErrorKind, Value,
    aio::{ConnectionLike as _, MultiplexedConnection},
};
#[cfg(feature = "cluster")]
use redis::{
    cluster::{ClusterClient, ClusterConfig},
    cluster_async::ClusterConnection,
    cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr},
};
#[cfg(feature = "sentinel")]
use tokio::sync::Mutex;

use super::target::{Primary, Target};
use crate::error::Failure;

/// How the servers are found.
#[derive(Clone)]
pub(crate) enum Topology {
    #[cfg(feature = "cluster")]
    Cluster(Arc<ClusterClient>),
    #[cfg(feature = "sentinel")]
    Sentinel(Arc<Mutex<SentinelClient>>),
    Single(Arc<Client>),
}

impl Topology {
    /// Makes a connection, to the server that is the primary now or to all servers of a cluster.
    pub(super) async fn connect(&self, patience: Duration) -> Result<Connection, RedisError> {
        // The time for an answer is limited by who waits for it.
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(patience)).set_response_timeout(None);
        match self {
            #[cfg(feature = "cluster")]
            Self::Cluster(client) => {
                let config = ClusterConfig::new().set_connection_timeout(patience).set_response_timeout(LONGEST_ANSWER);
                Ok(Connection::Cluster(client.get_async_connection_with_config(config).await?))
            }
            #[cfg(feature = "sentinel")]
            Self::Sentinel(client) => {
                let connection = client.lock().await.get_async_connection_with_config(&config).await?;
                Ok(Connection::Server(connection))
            }
            Self::Single(client) => {
                Ok(Connection::Server(client.get_multiplexed_async_connection_with_config(&config).await?))
            }
        }
    }
}

/// Longer than a store waits for replicas (`Durability::within`). Who waits for an answer gives up sooner.
#[cfg(feature = "cluster")]
const LONGEST_ANSWER: Duration = Duration::from_secs(2 * 60);

/// A connection that many operations share.
#[derive(Clone)]
pub(super) enum Connection {
    #[cfg(feature = "cluster")]
    Cluster(ClusterConnection),
    Server(MultiplexedConnection),
}

impl Connection {
    pub(super) async fn send(self, target: Target<'_>, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let count = commands.cmd_iter().count();
        match self {
            #[cfg(feature = "cluster")]
            Self::Cluster(mut connection) => {
                connection.route_pipeline(commands.clone(), 0, count, target.into_route()).await.map_err(Failure::Lost)
            }
            Self::Server(mut connection) => {
                let _ = target;
                let values = connection.req_packed_commands(commands, 0, count).await.map_err(Failure::Lost)?;
                if values.iter().any(leads_elsewhere) { Err(Failure::WrongTopology) } else { Ok(values) }
            }
        }
    }

    pub(super) async fn primaries(self) -> Result<Vec<Primary>, Failure> {
        match self {
            #[cfg(feature = "cluster")]
            Self::Cluster(mut connection) => {
                let mut slots = redis::cmd("CLUSTER");
                slots.arg("SLOTS");
                let route = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
                let answer = connection.route_command(slots, route).await.map_err(Failure::Lost)?;
                primaries_of(answer).ok_or(Failure::Corrupt("CLUSTER SLOTS"))
            }
            Self::Server(_) => Ok(vec![Primary::Only]),
        }
    }
}

/// Returns whether a node of a cluster says that the record is another's. Only the client of a cluster follows it there.
fn leads_elsewhere(answer: &Value) -> bool {
    let kind = if let Value::ServerError(error) = answer { error.kind() } else { None };
    matches!(kind, Some(ServerErrorKind::Ask | ServerErrorKind::Moved))
}

#[cfg(feature = "cluster")]
impl Target<'_> {
    fn into_route(self) -> SingleNodeRoutingInfo {
        match self {
            Self::Record(name) => SingleNodeRoutingInfo::SpecificNode(Route::with_key(name, SlotAddr::Master)),
            Self::Primary(Primary::At { host, port }) => {
                SingleNodeRoutingInfo::ByAddress { host: host.clone(), port: *port }
            }
            Self::Primary(Primary::Only) => SingleNodeRoutingInfo::RandomPrimary,
        }
    }
}

/// Reads `CLUSTER SLOTS`: ranges of slots, each with its first and last, its primary, and its replicas. A primary has several ranges.
#[cfg(feature = "cluster")]
fn primaries_of(answer: Value) -> Option<Vec<Primary>> {
    let ranges: Vec<Vec<Value>> = redis::from_redis_value(answer).ok()?;
    let mut found = Vec::new();
    for range in ranges {
        let node: Vec<Value> = redis::from_redis_value(range.into_iter().nth(2)?).ok()?;
        let mut parts = node.into_iter();
        let host: String = redis::from_redis_value(parts.next()?).ok()?;
        let port: u16 = redis::from_redis_value(parts.next()?).ok()?;
        if !found.contains(&(host.clone(), port)) {
            found.push((host, port));
        }
    }
    Some(found.into_iter().map(|(host, port)| Primary::At { host, port }).collect())
}
