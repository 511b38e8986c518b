//! The errors of statements in a handler's transaction.

use tokio_postgres::error::{DbError, SqlState};
use tonic::Status;

use crate::store::{TransactionErrorKind, driver::DriverError, postgres::error::driver_error};

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
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct TransactionError {
    kind: TransactionErrorKind,
    source: Option<DriverError>,
}

impl TransactionError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> TransactionErrorKind {
        self.kind
    }

    /// Returns the SQLSTATE of the server's answer; `None` if the error does not come from the server.
    pub fn code(&self) -> Option<&SqlState> {
        Some(self.as_db_error()?.code())
    }

    /// Returns the server's answer; `None` if the error does not come from the server.
    pub fn as_db_error(&self) -> Option<&DbError> {
        self.source.as_ref()?.downcast_ref::<tokio_postgres::Error>()?.as_db_error()
    }

    /// Returns whether a prepared statement is stale.
    pub(super) fn is_stale(&self) -> bool {
        self.source.as_ref().is_some_and(DriverError::is_stale)
    }
}

impl From<TransactionErrorKind> for TransactionError {
    fn from(kind: TransactionErrorKind) -> Self {
        Self { kind, source: None }
    }
}

impl From<tokio_postgres::Error> for TransactionError {
    fn from(error: tokio_postgres::Error) -> Self {
        let error = driver_error(error);
        Self { kind: TransactionErrorKind::from(&error), source: Some(error) }
    }
}

impl From<TransactionError> for Status {
    fn from(error: TransactionError) -> Self {
        error.kind.status_of(error)
    }
}
