//! Rows of the tables.

use std::time::Duration;

use tonic_idempotency::store::memory_transitions::Record;
use uuid::Uuid;

/// The owner and the key of a row.
pub(super) type Id = (Uuid, Uuid);

/// A version of a row: its id and its token.
pub(super) type Seen = (u64, Uuid);

/// A row of `tenant.idempotency_keys`.
#[derive(Clone, Debug)]
pub(super) struct StoredRow {
    /// Grows, as a UUIDv7 does.
    pub(super) number: u64,
    pub(super) record: Record,
    /// Whether the Go interceptor has made it: it has neither a token (here it is nil) nor a lease.
    pub(super) is_foreign: bool,
}

/// A row of the application's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The owner of the call's key.
    pub owner: Uuid,
    /// The key of the call.
    pub key: Uuid,
    /// The number of the call, as the handler has chosen it.
    pub call: u64,
    /// When it was committed, since the world began.
    pub time: Duration,
}
