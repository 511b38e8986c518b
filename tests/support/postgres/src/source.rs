//! Where a server comes from.

use std::fmt;

use crate::url;

/// Where a server comes from.
#[derive(Clone)]
pub enum Source {
    /// A container of `postgres:17-alpine`, or of the image in `IDEMPOTENCY_TEST_POSTGRES_IMAGE` (`name:tag`), on the
    /// engine that `DOCKER_HOST` or the usual sockets lead to. An image that is not there is pulled.
    Container,
    /// A server of one's own from PostgreSQL's server binaries on this machine. As root it runs as the user `postgres`,
    /// or
    /// `nobody` where there is none, because PostgreSQL refuses to run as root.
    Installed,
    /// A server that runs already: `postgres://user:password@host:port/database`. Without TLS.
    Url(String),
}

/// Keeps the password out of logs.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container => f.write_str("Container"),
            Self::Installed => f.write_str("Installed"),
            Self::Url(url) => f.debug_tuple("Url").field(&url::place(url)).finish(),
        }
    }
}
