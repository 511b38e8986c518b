//! Errors of a handler's statements.

use tokio_postgres::error::{DbError, SqlState};
use tonic::{Code, Status};

use crate::{
    store::postgres::connection::{connection_lost, in_conflict},
    telemetry::Chain,
};

/// A statement in a [`Transaction`](crate::store::Transaction) that failed.
///
/// `?` in a handler turns it into a [`Status`] that tells the client nothing of the database; what a handler knows better,
/// such as a violated constraint, it looks up first:
///
/// ```
/// use tokio_postgres::error::SqlState;
/// use tonic::Status;
/// use tonic_idempotency::store::TransactionError;
///
/// fn explained(error: TransactionError) -> Status {
///     match error.code() {
///         Some(&SqlState::UNIQUE_VIOLATION) => Status::already_exists("the name is taken"),
///         _ => error.into(),
///     }
/// }
/// ```
///
/// | kind | status |
/// |---|---|
/// | `Conflict` | `ABORTED` |
/// | `Ended`, `Missing`, `Refused` | `INTERNAL` |
/// | `Lost` | `UNAVAILABLE` |
#[derive(Debug, thiserror::Error)]
#[error("{}", .kind.message())]
pub struct TransactionError {
    kind: TransactionErrorKind,
    source: Option<tokio_postgres::Error>,
}

impl TransactionError {
    /// What went wrong.
    pub fn kind(&self) -> TransactionErrorKind {
        self.kind
    }

    /// The SQLSTATE that the server answered.
    pub fn code(&self) -> Option<&SqlState> {
        self.source.as_ref()?.code()
    }

    /// What the server answered.
    pub fn as_db_error(&self) -> Option<&DbError> {
        self.source.as_ref()?.as_db_error()
    }
}

impl From<TransactionErrorKind> for TransactionError {
    fn from(kind: TransactionErrorKind) -> Self {
        Self { kind, source: None }
    }
}

impl From<tokio_postgres::Error> for TransactionError {
    fn from(error: tokio_postgres::Error) -> Self {
        let kind = match () {
            () if connection_lost(&error) => TransactionErrorKind::Lost,
            () if in_conflict(&error) => TransactionErrorKind::Conflict,
            () => TransactionErrorKind::Refused,
        };
        Self { kind, source: Some(error) }
    }
}

impl From<TransactionError> for Status {
    fn from(error: TransactionError) -> Self {
        let (code, message) = match error.kind {
            TransactionErrorKind::Conflict => (Code::Aborted, "lost against another call; retry"),
            TransactionErrorKind::Lost => (Code::Unavailable, "the database cannot be reached; retry"),
            TransactionErrorKind::Ended | TransactionErrorKind::Missing | TransactionErrorKind::Refused => {
                (Code::Internal, "the database did not do what it was asked")
            }
        };
        tracing::warn!(error = %Chain(&error), "a statement of a transactional call failed");
        let mut status = Self::new(code, message);
        status.set_source(std::sync::Arc::new(error));
        status
    }
}

/// Why a statement failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransactionErrorKind {
    /// It lost against another transaction: a serialization failure or a deadlock. The whole call may succeed if it is tried
    /// again; the layer tells the client so, whatever the handler answers.
    Conflict,
    /// The call that the transaction belongs to has ended.
    Ended,
    /// The connection is gone, and with it all that was written.
    Lost,
    /// The request came with no transaction: its procedure is not transactional, or the layer has no store.
    Missing,
    /// The server refused the statement, or it cannot be sent.
    Refused,
}

impl TransactionErrorKind {
    fn message(self) -> &'static str {
        match self {
            Self::Conflict => "the transaction lost against another",
            Self::Ended => "the call that this transaction belongs to has ended",
            Self::Lost => "the connection of the transaction was lost",
            Self::Missing => {
                "the request has no transaction: make its procedure transactional, and give the idempotency layer a store"
            }
            Self::Refused => "the statement failed",
        }
    }
}
