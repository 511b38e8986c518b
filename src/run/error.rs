//! The errors of operations: [`RunError`], [`OperationError`].

use std::{error::Error, fmt};

use thiserror::Error;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::{CodecError, DeadLetter, HandlerError, Outcome, Settlement};
use crate::rejection::{Reason, Rejection};

/// The reason why an operation has no response. `E` is the handler's error. [`Settlement::of`] says what to do with the message.
///
/// Its text and its [source](Error::source) are those of the handler's error, if the handler failed ([`HandlerError::as_error`]).
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The handler failed.
    Failed {
        /// Its error.
        error: E,
        /// Whether each later call with the key gets the same error. Otherwise the key is free, and the operation may be tried again.
        is_final: bool,
    },
    /// The handler panicked. The key is free.
    Panicked,
    /// The operation was not run, or it is not known how it ended: the reason says which. It is that of a gRPC call.
    Refused {
        /// The reason.
        reason: Reason,
        /// Its meaning, and the advice.
        message: String,
        /// The word to the queue that has delivered the message.
        settlement: Settlement,
    },
    /// The request cannot be read or hashed. The operation was not run, and its key not claimed.
    Malformed(CodecError),
    /// The response of a transactional operation cannot be encoded: the operation was rolled back.
    Response(CodecError),
    /// The operation has ended before, and how cannot be read from its record: another codec or version has written it, its final error
    /// was too large to store, or its key is destroyed.
    Unreadable {
        /// Why it cannot be read.
        error: CodecError,
        /// Whether the operation succeeded; otherwise it ended with a final error.
        is_success: bool,
    },
    /// The operation has ended before, and a hook of the application, a [`ReplayAuthorizer`](crate::policy::ReplayAuthorizer) or a
    /// [`Rebuilder`](crate::policy::Rebuilder), does not give its outcome to the caller.
    Withheld {
        /// The answer of the hook.
        status: Status,
        /// Whether the operation succeeded; otherwise it ended with a final error.
        is_success: bool,
    },
}

impl Settlement {
    /// Returns what to do with the message whose operation has ended like this.
    pub fn of<T, E>(ended: &Result<Outcome<T>, RunError<E>>) -> Self {
        ended.as_ref().map_or_else(RunError::settlement, |_| Self::Acknowledge)
    }
}

impl<E> RunError<E> {
    fn settlement(&self) -> Settlement {
        match self {
            Self::Failed { is_final: true, .. } => Settlement::DeadLetter(DeadLetter::FinalError),
            // What the program does wrong, its next release may do right.
            Self::Failed { is_final: false, .. } | Self::Panicked | Self::Response(_) => Settlement::LATER,
            Self::Malformed(_) => Settlement::DeadLetter(DeadLetter::Malformed),
            Self::Refused { settlement, .. } => *settlement,
            // The hook is away.
            Self::Withheld { status, .. } if status.code() == Code::Unavailable => {
                let delay = status.get_details_retry_info().and_then(|info| info.retry_delay);
                delay.map_or(Settlement::LATER, Settlement::after)
            }
            Self::Unreadable { is_success: true, .. } | Self::Withheld { is_success: true, .. } => {
                Settlement::Acknowledge
            }
            Self::Unreadable { .. } | Self::Withheld { .. } => Settlement::DeadLetter(DeadLetter::FinalError),
        }
    }

    pub(crate) fn rejected(rejection: &Rejection) -> Self {
        Self::Refused { reason: rejection.reason(), message: rejection.to_string(), settlement: rejection.settlement() }
    }
}

impl<E: HandlerError> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { error, is_final } => match (error.as_error(), is_final) {
                (Some(error), _) => write!(f, "{error}"),
                (None, true) => f.write_str("the handler failed, and the error is final"),
                (None, false) => f.write_str("the handler failed"),
            },
            Self::Panicked => f.write_str("the handler panicked"),
            Self::Refused { message, .. } => f.write_str(message),
            Self::Malformed(error) => write!(f, "the request cannot be read: {error}"),
            Self::Response(error) => {
                write!(f, "the operation was rolled back, because its response cannot be stored: {error}")
            }
            Self::Unreadable { error, .. } => {
                write!(f, "the operation has ended, and its stored outcome cannot be read: {error}")
            }
            Self::Withheld { status, .. } => write!(f, "the stored outcome is withheld: {status}"),
        }
    }
}

impl<E: HandlerError + fmt::Debug> Error for RunError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed { error, .. } => error.as_error()?.source(),
            Self::Malformed(error) | Self::Response(error) | Self::Unreadable { error, .. } => Some(&**error),
            Self::Withheld { status, .. } => Some(status),
            Self::Panicked | Self::Refused { .. } => None,
        }
    }
}

/// For a gRPC handler that [runs an operation](super::Operation::run_within): `UNAVAILABLE` with `RetryInfo` if the call may be tried again,
/// and `FAILED_PRECONDITION` if that does not help. It has the text of the error, and no `ErrorInfo` of the layer, which a client would
/// take for the word on the key of its own call.
impl<E: HandlerError> From<RunError<E>> for Status {
    fn from(error: RunError<E>) -> Self {
        match error.settlement() {
            Settlement::Redeliver { after } => {
                let details = ErrorDetails::with_retry_info(Some(after));
                Self::with_error_details(Code::Unavailable, error.to_string(), details)
            }
            Settlement::Acknowledge | Settlement::DeadLetter(_) => Self::failed_precondition(error.to_string()),
        }
    }
}

/// The reason why there is no such operation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The layer's builder does not declare it.
    #[error("{operation}: the layer has no such operation; declare it with Procedure::operation")]
    Undeclared {
        /// Its name.
        operation: String,
    },
    /// The layer has no store.
    #[error(
        "{operation}: the layer has no store, so that nothing could be protected; give it one with IdempotencyLayerBuilder::store"
    )]
    NoStore {
        /// Its name.
        operation: String,
    },
    /// Its codec does not know the type of its requests.
    #[error("{operation}: {error}")]
    Codec {
        /// Its name.
        operation: String,
        /// The thing that is missing.
        #[source]
        error: CodecError,
    },
}
