//! The errors of operations: [`RunError`], [`OperationError`].

use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};

use super::CodecError;
use crate::rejection::{Reason, Rejection};

/// The reason why an operation has no response. `E` is the handler's error.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The handler failed.
    #[error("the handler failed{}", if *.is_final { ", and the error is final" } else { "" })]
    Failed {
        /// Its error.
        error: E,
        /// Whether each later call with the key gets the same error. Otherwise the key is free, and the operation may be tried again.
        is_final: bool,
    },
    /// The handler panicked. The key is free.
    #[error("the handler panicked")]
    Panicked,
    /// The operation was not run, or it is not known how it ended: the reason says which. It is that of a gRPC call.
    #[error("{message}")]
    Refused {
        /// The reason.
        reason: Reason,
        /// Its meaning, and the advice.
        message: String,
        /// When it may be tried again, with the same key; `None` if that does not help.
        retry_after: Option<Duration>,
    },
    /// The request cannot be hashed. The operation was not run.
    #[error("the request cannot be hashed: {0}")]
    Request(#[source] CodecError),
    /// The response of a transactional operation cannot be encoded: the operation was rolled back.
    #[error("the operation was rolled back, because its response cannot be stored: {0}")]
    Response(#[source] CodecError),
    /// The operation has ended before, and how cannot be read from its record: another codec or version has written it, or its final error
    /// was too large to store.
    #[error("the operation has ended, and its stored outcome cannot be read: {0}")]
    Unreadable(#[source] CodecError),
    /// The application's [`ReplayAuthorizer`](crate::policy::ReplayAuthorizer) keeps the response from the caller.
    #[error("the stored response is withheld: {0}")]
    Withheld(#[source] Status),
}

impl<E> RunError<E> {
    /// Returns when the message may be delivered again, at the earliest; `None` if each delivery would end like this one, so that it
    /// belongs to the dead letters. A message that a server refuses because of its own setup does not. See [the module](super#a-consumer).
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failed { is_final: false, .. } | Self::Panicked => Some(Duration::ZERO),
            // The server is at fault, and not the message.
            Self::Refused { reason: Reason::CallerInvalid | Reason::StoreFailed | Reason::TooManyRecords, .. } => {
                Some(Duration::ZERO)
            }
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Withheld(status) => (status.code() == Code::Unavailable).then_some(Duration::ZERO),
            Self::Failed { is_final: true, .. } | Self::Request(_) | Self::Response(_) | Self::Unreadable(_) => None,
        }
    }

    pub(crate) fn refused(rejection: &Rejection) -> Self {
        Self::Refused {
            reason: rejection.reason(),
            message: rejection.to_string(),
            retry_after: rejection.retry_after(),
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
