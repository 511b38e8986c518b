//! A private Redis Cluster.

use std::thread;

use crate::{
    error::StartError,
    programs::{create_cluster, until},
    server::Server,
};

/// The number of primaries.
const PRIMARIES: usize = 3;

/// The node timeout while the cluster is made, in milliseconds: Redis's default. Redis also limits with it the time that a node has for
/// joining.
const JOINING: u32 = 15_000;

/// A cluster of three primaries, each with one replica. Dropping it kills and removes all of them.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts a cluster, whose nodes have these lines of configuration, and waits until it takes writes and its replicas follow. A
    /// primary counts as failed after `node_timeout` milliseconds.
    ///
    /// # Errors
    ///
    /// There is no `redis-server` or no `redis-cli`, or the cluster is not ready within a minute.
    pub fn start(node_timeout: u32, configuration: &[&str]) -> Result<Self, StartError> {
        let timeout = format!("cluster-node-timeout {node_timeout}");
        let of_cluster = ["cluster-enabled yes", &timeout, "repl-diskless-sync-delay 0"];
        let lines = [&of_cluster, configuration].concat();
        let start = || Server::start(&lines);
        let nodes: Result<Vec<_>, _> = thread::scope(|scope| {
            let starting: Vec<_> = (0..2 * PRIMARIES).map(|_| scope.spawn(start)).collect();
            let joined = starting.into_iter().map(|start| start.join());
            joined.map(|node| node.unwrap_or_else(|_| Err(StartError::new("a thread panicked")))).collect()
        });
        let cluster = Self { nodes: nodes? };
        let ports: Vec<_> = cluster.nodes.iter().map(|node| node.address().port()).collect();
        cluster.set_node_timeout(JOINING);
        create_cluster(&ports, 1)?;
        cluster.settle()?;
        cluster.set_node_timeout(node_timeout);
        Ok(cluster)
    }

    fn set_node_timeout(&self, milliseconds: u32) {
        for node in &self.nodes {
            node.ask(&["CONFIG", "SET", "cluster-node-timeout", &milliseconds.to_string()]);
        }
    }

    /// The addresses of all nodes, as clients write them.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// A primary and its replica, which have this slot.
    pub fn pair(&self, slot: u16) -> Option<(&Server, &Server)> {
        let primaries = self.nodes.iter().filter(|node| node.ask(&["ROLE"]).starts_with("master"));
        for primary in primaries {
            let ports = followers(primary);
            let mut replicas = self.nodes.iter().filter(|node| ports.contains(&node.address().port()));
            if has_slot(primary, slot)
                && let Some(replica) = replicas.next()
            {
                return Some((primary, replica));
            }
        }
        None
    }

    /// Waits until the cluster takes writes, and each of its primaries has a replica that follows.
    ///
    /// # Errors
    ///
    /// That is not so within a minute.
    pub fn settle(&self) -> Result<(), StartError> {
        until("the cluster has replicas that follow", || self.is_settled())
    }

    /// Whether the cluster takes writes, and each of its primaries has a replica that follows.
    pub fn is_settled(&self) -> bool {
        let is_ok = |node: &Server| node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
        let roles: Vec<_> = self.nodes.iter().map(|node| node.ask(&["INFO", "replication"])).collect();
        let primaries = roles.iter().filter(|role| role.contains("role:master")).collect::<Vec<_>>();
        let following = roles.iter().filter(|role| role.contains("master_link_status:up")).count();
        self.nodes.iter().all(is_ok)
            && primaries.len() == PRIMARIES
            && primaries.iter().all(|role| role.contains("connected_slaves:1"))
            && following == PRIMARIES
    }
}

/// Returns the ports of the replicas of a primary.
fn followers(primary: &Server) -> Vec<u16> {
    let replication = primary.ask(&["INFO", "replication"]);
    let lines = replication.lines().filter(|line| line.starts_with("slave"));
    lines.filter_map(|line| line.split_once("port=")?.1.split(',').next()?.parse().ok()).collect()
}

/// Returns whether a node has a slot, by its own account.
fn has_slot(node: &Server, slot: u16) -> bool {
    let nodes = node.ask(&["CLUSTER", "NODES"]);
    let Some(myself) = nodes.lines().find(|line| line.contains("myself")) else { return false };
    let ranges = myself.split_whitespace().skip(8);
    ranges.filter(|range| !range.starts_with('[')).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&slot),
            _ => false,
        }
    })
}
