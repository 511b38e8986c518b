//! Ports for private servers.

use std::{io, net::TcpListener};

/// How often a server is started anew because another process took the port that was free a moment ago.
pub(crate) const ATTEMPTS: usize = 5;

/// A port of 127.0.0.1 that nobody uses at this moment.
pub(crate) fn free() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
