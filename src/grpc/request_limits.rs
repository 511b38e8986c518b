//! The limits of a request.

use std::time::Duration;

use tonic_idempotency_wire::MAX_MESSAGE_BYTES;

/// The limits of a request, in any protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    /// The maximum size of its message, in bytes.
    pub(crate) bytes: usize,
    /// The time in which its body has to arrive.
    pub(crate) time: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { bytes: MAX_MESSAGE_BYTES, time: Duration::from_secs(30) }
    }
}
