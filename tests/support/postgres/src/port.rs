//! Ports for private servers.

use std::{io, net::TcpListener};

/// The number of attempts to start a server, in case another process takes the port that was just free.
pub(crate) const ATTEMPTS: usize = 5;

/// Returns a port of 127.0.0.1 that is free at this moment.
pub(crate) fn free() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Returns this many different ports of 127.0.0.1 that are free at this moment.
pub(crate) fn several(number: usize) -> io::Result<Vec<u16>> {
    let listeners: Vec<TcpListener> =
        (0..number).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
