//! A primary and a replica under Redis Sentinel.

use crate::{error::StartError, programs::until, server::Server};

/// The name that the Sentinels have for the primary.
const NAME: &str = "idempotency";

/// A primary with a replica, watched by three Sentinels. Dropping it kills and removes all of them.
#[derive(Debug)]
pub struct Watched {
    servers: [Server; 2],
    sentinels: Vec<Server>,
}

impl Watched {
    /// Starts the servers with these lines of configuration, and waits until the Sentinels know each other and the replica. A primary
    /// counts as failed after `down_after` milliseconds.
    ///
    /// # Errors
    ///
    /// There is no `redis-server` or no `redis-cli`, or they are not ready within a minute.
    pub fn start(down_after: u32, configuration: &[&str]) -> Result<Self, StartError> {
        let lines = [&["repl-diskless-sync-delay 0"], configuration].concat();
        let primary = Server::start(&lines)?;
        let port = primary.address().port();
        let follows = format!("replicaof 127.0.0.1 {port}");
        let replica = Server::start(&[&lines[..], &[&follows]].concat())?;
        let monitor = format!("sentinel monitor {NAME} 127.0.0.1 {port} 2");
        let down_after = format!("sentinel down-after-milliseconds {NAME} {down_after}");
        let failover = format!("sentinel failover-timeout {NAME} 5000");
        let sentinels: Result<_, _> =
            (0..3).map(|_| Server::launch(&[&monitor, &down_after, &failover], &["--sentinel"])).collect();
        let watched = Self { servers: [primary, replica], sentinels: sentinels? };
        until("the Sentinels know the replica and each other", || {
            watched.sentinels.iter().all(|sentinel| {
                let known = sentinel.ask(&["SENTINEL", "MASTER", NAME]);
                let mut words = known.split_whitespace();
                let mut value = |name: &str| words.by_ref().find(|word| *word == name).and_then(|_| words.next());
                value("num-slaves") == Some("1") && value("num-other-sentinels") == Some("2")
            }) && watched.servers[1].ask(&["INFO", "replication"]).contains("master_link_status:up")
        })?;
        Ok(watched)
    }

    /// The name that the Sentinels have for the primary.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// The addresses of the Sentinels, as clients write them.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Server::url).collect()
    }

    /// The server that was the primary first, and its replica.
    pub fn servers(&self) -> &[Server; 2] {
        &self.servers
    }
}
