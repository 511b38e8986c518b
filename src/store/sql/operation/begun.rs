//! The begin of an operation.

use tokio::time::Instant;

/// The begin of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// By the clock of the deadlines.
    pub(super) at: Instant,
    /// By the clock of the pools, which know since when a connection is idle.
    pub(super) for_pools: std::time::Instant,
}

impl Begun {
    pub(super) fn at(at: Instant) -> Self {
        Self { at, for_pools: std::time::Instant::now() }
    }
}
