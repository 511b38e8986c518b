//! Ports for private servers.

use std::{fs, io, net::TcpListener, ops::Range};

use uuid::Uuid;

use crate::error::Cause;

/// The number of attempts to start a server, in case another process takes the port that was just free.
const ATTEMPTS: usize = 5;

/// How many ports are tried.
const TRIED: usize = 1_000;

/// The lowest port that is taken, and where the ports begin that Linux gives to connections by default.
const PORTS: Range<u16> = 10_000..32_768;

/// Returns this many different ports of 127.0.0.1 that are free at this moment. The system gives none of them to a connection, which would
/// keep it from a server that starts again.
///
/// # Errors
///
/// There are not as many.
pub fn several(number: usize) -> io::Result<Vec<u16>> {
    let ports = PORTS.start..connections_begin().unwrap_or(PORTS.end).max(PORTS.start + 1);
    let mut listeners: Vec<TcpListener> = Vec::new();
    for _ in 0..TRIED {
        if listeners.len() == number {
            return listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect();
        }
        let any = ports.start + (Uuid::new_v4().as_u128() % u128::from(ports.end - ports.start)) as u16;
        listeners.extend(TcpListener::bind(("127.0.0.1", any)));
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, format!("no port of {ports:?} is free")))
}

/// Launches a server on this many ports; on others, if one of them was taken meanwhile and its error has this text.
pub(crate) async fn on_free<T, F: Future<Output = Result<T, Cause>>>(
    number: usize,
    is_taken: &str,
    launch: impl Fn(Vec<u16>) -> F,
) -> Result<T, Cause> {
    let mut attempts = 1;
    loop {
        match launch(several(number)?).await {
            Err(cause) if attempts < ATTEMPTS && cause.to_string().contains(is_taken) => attempts += 1,
            outcome => return outcome,
        }
    }
}

/// The first port that the system gives to connections.
fn connections_begin() -> Option<u16> {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_different_and_not_those_of_connections() {
        let mut ports = several(100).expect("ports");
        let connections = connections_begin().unwrap_or(PORTS.end);
        assert!(ports.iter().all(|port| (PORTS.start..connections).contains(port)), "{ports:?}");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 100);
    }
}
