//! [`TransactionError`].

use tokio_postgres::error::{DbError, SqlState};
use tonic::{Code, Status};

use crate::{
    store::postgres::fault::{connection_lost, in_conflict},
    telemetry::Chain,
};

/// The error of a failed statement in a [`Transaction`](crate::Transaction).
///
/// `?` in a handler turns the error into a [`Status`] that tells the client nothing about the database. A handler can
/// answer with a better status if it looks at the error first, for a violated constraint, say:
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
/// | `Ended`, `Missing`, `Refused`, `SavepointEnded` | `INTERNAL` |
/// | `Lost` | `UNAVAILABLE` |
#[derive(Debug, thiserror::Error)]
#[error("{}", .kind.message())]
pub struct TransactionError {
    kind: TransactionErrorKind,
    source: Option<tokio_postgres::Error>,
}

impl TransactionError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> TransactionErrorKind {
        self.kind
    }

    /// Returns the SQLSTATE of the server's answer; `None` if the error does not come from the server.
    pub fn code(&self) -> Option<&SqlState> {
        self.source.as_ref()?.code()
    }

    /// Returns the server's answer; `None` if the error does not come from the server.
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
            TransactionErrorKind::Conflict => (Code::Aborted, "the call lost against another call; retry"),
            TransactionErrorKind::Lost => (Code::Unavailable, "the database cannot be reached; retry"),
            // A mistake in the server's code, which says nothing about the database.
            TransactionErrorKind::Missing => (Code::Internal, error.kind.message()),
            TransactionErrorKind::Ended | TransactionErrorKind::Refused | TransactionErrorKind::SavepointEnded => {
                (Code::Internal, "internal database error")
            }
        };
        tracing::warn!(error = %Chain(&error), "a statement of a transactional handler failed");
        let mut status = Self::new(code, message);
        status.set_source(std::sync::Arc::new(error));
        status
    }
}

/// The kind of a [`TransactionError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransactionErrorKind {
    /// The transaction lost against another one: a serialization failure or a deadlock. The whole call may succeed if
    /// it is tried again. The layer tells the client so, whatever the handler answers.
    Conflict,
    /// The call that the transaction belongs to has ended.
    Ended,
    /// The connection was lost, and the server rolls back everything that was written.
    Lost,
    /// The request has no transaction: there is no layer around the service, or the layer has no store, or one in memory; or
    /// the procedure is not transactional.
    Missing,
    /// The server refused the statement, or the statement cannot be sent.
    Refused,
    /// The savepoint that the handle belongs to has ended, on its own or together with one that was set before it.
    SavepointEnded,
}

impl TransactionErrorKind {
    fn message(self) -> &'static str {
        match self {
            Self::Conflict => "the transaction lost against another transaction",
            Self::Ended => "the call that this transaction belongs to has ended",
            Self::Lost => "the transaction's connection was lost",
            Self::Missing => {
                "no Transaction in the request: is the idempotency layer around this service, and the procedure \
                 transactional? (a MemoryStore has no transactions to give)"
            }
            Self::Refused => "the statement failed",
            Self::SavepointEnded => "the savepoint that this handle belongs to has ended",
        }
    }
}
