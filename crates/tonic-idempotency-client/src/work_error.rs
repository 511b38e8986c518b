//! The error of waiting for the end of the work behind a call.

use thiserror::Error;
use tonic::Status;

/// The work behind a call has not been completed, as far as it is known.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum WorkError {
    /// The work has failed for good.
    #[error("the work behind the call has failed")]
    Failed,
    /// The server no longer has the record of the key. The resource shows whether the work was done.
    #[error("the server does not know the key any more; look at the resource")]
    Forgotten,
    /// The key expires, so that another replay might run the call again. The resource shows whether the work was done.
    #[error("the key expires, and the server cannot be asked without it; look at the resource")]
    KeyExpires,
    /// The response has no status; or its call did not pass the layer, or passed it without a key.
    #[error("the response does not tell the status of the work behind the call")]
    NoStatus,
    /// The server answered a replay without the header `idempotent-replayed`. It may have run the call again, which it should not.
    #[error("the server did not replay the call, and may have run it again")]
    NotReplayed,
    /// The server refuses to replay the call.
    #[error("the server refuses to tell the status: {0}")]
    Refused(#[source] Status),
    /// The time of [`PendingWork::timeout`](crate::PendingWork::timeout) is over. The work may go on.
    #[error("the work behind the call has not ended in time")]
    TimedOut,
}
