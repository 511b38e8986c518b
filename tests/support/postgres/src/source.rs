//! The sources of servers.

use std::{fmt, path::PathBuf};

use crate::url;

/// The source of a server.
#[derive(Clone)]
pub enum Source {
    /// A new server from the server binaries in this directory; otherwise as [`Source::Installed`].
    Binaries(PathBuf),
    /// A container of `postgres:17-alpine`, or of the image in `IDEMPOTENCY_TEST_POSTGRES_IMAGE` (`name:tag`), on the
    /// engine at `DOCKER_HOST` or at one of the usual sockets. A missing image is pulled.
    Container,
    /// A new server from PostgreSQL's server binaries on this machine; if `IDEMPOTENCY_TEST_POSTGRES_BIN` is set, from those in
    /// that directory. As root it runs as the user `postgres`, or `nobody` if there is no such user, because PostgreSQL refuses
    /// to run as root.
    Installed,
    /// A running server: `postgres://user:password@host:port/database`, without TLS.
    Url(String),
}

/// Keeps the password out of logs.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binaries(directory) => f.debug_tuple("Binaries").field(directory).finish(),
            Self::Container => f.write_str("Container"),
            Self::Installed => f.write_str("Installed"),
            Self::Url(url) => f.debug_tuple("Url").field(&url::place(url)).finish(),
        }
    }
}
