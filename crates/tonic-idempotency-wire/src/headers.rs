//! The names of the headers.

/// The request header with the key of the operation: a UUID, or another text if the procedure takes such keys. See the
/// [IETF draft](https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/).
pub const KEY: &str = "idempotency-key";

/// The maximum length of a key, in characters.
pub const MAX_KEY: usize = 255;

/// The response header with the status of the asynchronous work behind the created resource: an
/// [`IdempotencyStatus`](crate::IdempotencyStatus).
pub const STATUS: &str = "idempotency-status";

/// The response header on an error that a handler has returned to a call with a key: an [`ErrorOutcome`](crate::ErrorOutcome). The layer's
/// own refusals have an `ErrorInfo` instead.
pub const OUTCOME: &str = "idempotency-outcome";

/// The response header on a replay: `true`. Other responses do not have it.
pub const REPLAYED: &str = "idempotent-replayed";

/// The response header with the number of seconds for which the key still protects.
pub const EXPIRES: &str = "idempotency-expires";
