//! The choice of a topology on the command line.

use std::fmt;

use clap::ValueEnum;

/// The database that the servers use, and what is in front of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topology {
    /// Three PostgreSQL servers with streaming replication, of which Patroni makes one the primary. Patroni, etcd and HAProxy
    /// have to be installed.
    Patroni,
    /// One PostgreSQL server behind a PgBouncer in transaction mode, which has to be installed.
    Pgbouncer,
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

/// What a COMMIT of the primary waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Replication {
    /// For the primary alone. A failover may lose what was acknowledged; that is counted, and breaks no promise.
    Asynchronous,
    /// For a standby, too.
    #[default]
    Synchronous,
}

impl fmt::Display for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Haproxy => "HAProxy",
            Self::Hosts => "several hosts",
        })
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asynchronous => "asynchronous",
            Self::Synchronous => "synchronous",
        })
    }
}
