//! Ports for private servers.

use std::{io, net::TcpListener};

/// The number of attempts to start a server, in case another process takes the port that was just free.
pub(crate) const ATTEMPTS: usize = 5;

/// Returns a port of 127.0.0.1 that is free at this moment.
pub(crate) fn free() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
