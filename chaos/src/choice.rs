//! The choice of a topology on the command line.

use clap::ValueEnum;

/// The database that the servers use, and what is in front of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topology {
    /// Three PostgreSQL servers with streaming replication, of which Patroni makes one the primary. Patroni, etcd and HAProxy
    /// have to be installed.
    Patroni,
    /// One PostgreSQL server, whose table of keys has partitions.
    Partitioned,
    /// One PostgreSQL server behind a PgBouncer in transaction mode, which has to be installed.
    Pgbouncer,
    /// One PostgreSQL server for the effects, and a Redis Cluster of three primaries with a replica each for the records. Only in
    /// reserved mode. What failovers lose is counted, and breaks no promise. Redis has to be installed.
    RedisCluster,
    /// One PostgreSQL server.
    #[default]
    Single,
}

/// How servers find the primary of several PostgreSQL servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Front {
    /// HAProxy asks each server's Patroni which one it is.
    #[default]
    Haproxy,
    /// Connection strings name all servers, with `target_session_attrs=read-write`.
    Hosts,
}

/// The replication that a COMMIT of the primary waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Replication {
    /// Only the primary. A failover may lose acknowledged data; that is counted, and breaks no promise.
    Asynchronous,
    /// A standby, too.
    #[default]
    Synchronous,
}

/// The persistence of the Redis servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Persistence {
    /// Each write, with `appendfsync always`.
    Always,
    /// Each write, flushed once a second: `appendfsync everysec`.
    #[default]
    Everysec,
    /// Nothing: `appendonly no`.
    Nothing,
}

impl Persistence {
    /// The lines of a server's configuration.
    pub(crate) fn lines(self) -> &'static [&'static str] {
        match self {
            Self::Always => &["appendonly yes", "appendfsync always"],
            Self::Everysec => &["appendonly yes", "appendfsync everysec"],
            Self::Nothing => &["appendonly no"],
        }
    }
}
