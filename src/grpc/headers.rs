//! The names of the layer's headers.

pub(crate) const KEY: &str = "idempotency-key";
pub(crate) const STATUS: &str = "idempotency-status";
pub(crate) const REPLAYED: &str = "idempotent-replayed";
