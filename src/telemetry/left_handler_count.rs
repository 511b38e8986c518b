//! The gauge of the handlers that took too long and still run.

use metrics::gauge;

const NAME: &str = "idempotency_handlers_left";

/// Counts a handler whose call was answered without it, until this is dropped.
pub(crate) struct LeftHandlerCount(());

impl LeftHandlerCount {
    pub(crate) fn new() -> Self {
        gauge!(NAME).increment(1.0);
        Self(())
    }
}

impl Drop for LeftHandlerCount {
    fn drop(&mut self) {
        gauge!(NAME).decrement(1.0);
    }
}
