//! The error of statements in a call's transaction, and the status that it turns into.

use diesel::result::Error;
use tonic::Status;
use tonic_idempotency::store::{TransactionErrorKind, driver::DriverError};

use crate::error::{self, driver_error};

/// The error of a [`Transaction`](crate::Transaction), or of a statement in it.
///
/// It is made from an [`Error`] of diesel by `?`, and turns into a [`Status`] by `?`, by the table of [`TransactionErrorKind`]: the
/// client learns nothing about the database. A handler can answer with a better status if it looks at the error first, for a
/// violated constraint, say:
///
/// ```
/// use diesel::result::{DatabaseErrorKind, Error};
/// use tonic::Status;
/// use tonic_idempotency_diesel::TransactionError;
///
/// fn explained(error: TransactionError) -> Status {
///     match error.as_diesel_error() {
///         Some(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _)) => Status::already_exists("the name is taken"),
///         Some(Error::NotFound) => Status::not_found("there is no such order"),
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

    /// Returns the SQLSTATE of the server's answer; `None` if the error does not come from the server, or if diesel does not tell
    /// and the message is not one of the well-known ones, in English.
    pub fn code(&self) -> Option<&str> {
        self.source.as_ref()?.code()
    }

    /// Returns the error of diesel; `None` if there was no statement.
    pub fn as_diesel_error(&self) -> Option<&Error> {
        self.source.as_ref()?.downcast_ref()
    }
}

impl From<TransactionErrorKind> for TransactionError {
    fn from(kind: TransactionErrorKind) -> Self {
        Self { kind, source: None }
    }
}

impl From<Error> for TransactionError {
    fn from(error: Error) -> Self {
        let error = driver_error(error);
        Self { kind: TransactionErrorKind::from(&error), source: Some(error) }
    }
}

/// Returns whether an error says that a statement has lost against another transaction.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<Error>() {
        return error::is_conflict(error);
    }
    if let Some(error) = error.downcast_ref::<TransactionError>() {
        return error.kind == TransactionErrorKind::Conflict;
    }
    error.downcast_ref().is_some_and(DriverError::is_conflict)
}

impl From<TransactionError> for Status {
    fn from(error: TransactionError) -> Self {
        error.kind.status_of(error)
    }
}
