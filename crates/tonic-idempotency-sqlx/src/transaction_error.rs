//! The error of statements in a call's transaction, and the status that it turns into.

use tonic::Status;
use tonic_idempotency::{
    policy::FinalErrors,
    run::HandlerError,
    store::{TransactionErrorKind, driver::DriverError},
};

use crate::error::{self, explained, sqlx_error};

/// The error of a [`Transaction`](crate::Transaction), or of a statement in it.
///
/// It is made from an [`sqlx::Error`] by `?`, and turns into a [`Status`] by `?`, by the table of [`TransactionErrorKind`]: the client
/// learns nothing about the database. A handler can answer with a better status if it looks at the error first, for a violated
/// constraint, say:
///
/// ```
/// use tonic::Status;
/// use tonic_idempotency_sqlx::TransactionError;
///
/// fn explained(error: TransactionError) -> Status {
///     match error.code() {
///         Some("23505") => Status::already_exists("the name is taken"),
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
    pub fn code(&self) -> Option<&str> {
        self.source.as_ref()?.code()
    }

    /// Returns the error of sqlx; `None` if there was no statement.
    pub fn as_sqlx_error(&self) -> Option<&sqlx::Error> {
        sqlx_error(self.source.as_ref()?)
    }
}

impl From<TransactionErrorKind> for TransactionError {
    fn from(kind: TransactionErrorKind) -> Self {
        Self { kind, source: None }
    }
}

impl From<sqlx::Error> for TransactionError {
    fn from(error: sqlx::Error) -> Self {
        let error = explained(error);
        Self { kind: TransactionErrorKind::from(&error), source: Some(error) }
    }
}

/// Returns whether an error says that a statement has lost against another transaction, or is stale.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<sqlx::Error>() {
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
