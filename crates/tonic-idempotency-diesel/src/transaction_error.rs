//! The error of statements in a call's transaction, and the status that it turns into.

use diesel::result::Error;
use tonic::Status;
use tonic_idempotency::{
    policy::FinalErrors,
    run::HandlerError,
    store::{TransactionErrorKind, driver::DriverError},
};

use crate::error::{self, driver_error};

/// The error of a [`Transaction`](crate::Transaction), or of a statement in it.
///
/// `?` converts an [`Error`] of diesel into this error, and this error into a [`Status`]. The status comes from the table of
/// [`TransactionErrorKind`], and tells the client nothing about the database. A handler that looks at the error first can answer with
/// a better status. An example is a violated constraint:
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

    /// Returns the SQLSTATE of the server's answer; `None` if the error does not come from the server.
    ///
    /// diesel does not tell every SQLSTATE. The others are known from the server's message, if it is a well-known one in English. If it is
    /// not, this returns `None`, too.
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

/// Returns whether an error says that a statement has lost against another transaction, or is stale.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<Error>() {
        return error::is_conflict(error);
    }
    if let Some(error) = error.downcast_ref::<TransactionError>() {
        return error.kind == TransactionErrorKind::Conflict;
    }
    error.downcast_ref().is_some_and(DriverError::is_worth_another_run)
}

/// None is final.
impl HandlerError for TransactionError {
    fn can_be_final(_codes: &FinalErrors) -> bool {
        false
    }

    fn as_error(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self)
    }
}

impl From<TransactionError> for Status {
    fn from(error: TransactionError) -> Self {
        error.kind.status_of(error)
    }
}
