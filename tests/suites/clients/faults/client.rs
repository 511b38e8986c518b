//! A client that is tried, and how much of it.

use crate::protocol::Protocol;

pub(crate) struct Faulted {
    /// The name by which its driver knows it.
    pub(crate) name: &'static str,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) operations: usize,
    /// The time of an operation, in milliseconds.
    pub(crate) timeout: u64,
}

impl Faulted {
    /// A client of ours, which repeats calls until it knows.
    pub(crate) fn package(name: &'static str, protocols: &[Protocol]) -> Self {
        Self { name, protocols: protocols.to_vec(), operations: 2000, timeout: 15_000 }
    }

    /// A file for a library that repeats calls by a service config: without a deadline for each attempt, a call that hangs takes all of the time.
    pub(crate) fn by_service_config(name: &'static str) -> Self {
        Self { name, protocols: vec![Protocol::Grpc], operations: 400, timeout: 3000 }
    }
}
