//! The gauge of the calls that hold their keys.

use metrics::{Gauge, gauge};

/// Counts a call that holds its key, until this is dropped.
pub(crate) struct HeldKeyCount {
    in_transaction: bool,
}

impl HeldKeyCount {
    pub(crate) fn new(in_transaction: bool) -> Self {
        Self::gauge(in_transaction).increment(1.0);
        Self { in_transaction }
    }

    fn gauge(in_transaction: bool) -> Gauge {
        match in_transaction {
            true => gauge!("idempotency_reserved", "mode" => "transactional"),
            false => gauge!("idempotency_reserved", "mode" => "reserved"),
        }
    }
}

impl Drop for HeldKeyCount {
    fn drop(&mut self) {
        Self::gauge(self.in_transaction).decrement(1.0);
    }
}
