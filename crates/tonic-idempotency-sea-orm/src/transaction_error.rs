//! The error of statements in a call's transaction, and the status that it turns into.

use std::{error::Error, sync::Arc};

use sea_orm::{DbErr, RuntimeErr, TransactionError as ClosureError};
use tonic::Status;
use tonic_idempotency::{
    policy::FinalErrors,
    run::HandlerError,
    store::{
        TransactionErrorKind,
        driver::{Driver as _, DriverError},
    },
};
use tonic_idempotency_sqlx::{Sqlx, driver_error};

use crate::error::{kind_of_ended, of_runtime, sqlx_error};

/// The error of a [`Transaction`](crate::Transaction), or of a statement in it.
///
/// It is made from a [`DbErr`] by `?`, and turns into a [`Status`] by `?`, by the table of [`TransactionErrorKind`]: the client
/// learns nothing about the database. A handler can answer with a better status if it looks at the error first, for a violated
/// constraint, say:
///
/// ```
/// use tonic::Status;
/// use tonic_idempotency_sea_orm::TransactionError;
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

    /// Returns the error of sea-orm; `None` if there was no statement.
    pub fn as_db_err(&self) -> Option<&DbErr> {
        self.source.as_ref()?.downcast_ref()
    }
}

impl From<TransactionErrorKind> for TransactionError {
    fn from(kind: TransactionErrorKind) -> Self {
        Self { kind, source: None }
    }
}

impl From<DbErr> for TransactionError {
    fn from(error: DbErr) -> Self {
        if let Some(kind) = kind_of_ended(&error) {
            return kind.into();
        }
        let source = match sqlx_error(&error).map(Arc::clone) {
            Some(of_sqlx) => driver_error(&of_sqlx, error),
            None => DriverError::unanswered(error),
        };
        Self { kind: TransactionErrorKind::from(&source), source: Some(source) }
    }
}

/// The error of a closure in a transaction, or of that transaction.
impl<E: Into<Self>> From<ClosureError<E>> for TransactionError {
    fn from(error: ClosureError<E>) -> Self {
        match error {
            ClosureError::Connection(error) => error.into(),
            ClosureError::Transaction(error) => error.into(),
        }
    }
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

/// Returns whether an error says that a statement has lost against another transaction, or is stale. Not all errors of sea-orm have their
/// cause as their source.
pub(crate) fn is_conflict(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<DbErr>() {
        return sqlx_error(error).is_some_and(|error| Sqlx::is_conflict(&**error));
    }
    if let Some(error) = error.downcast_ref::<RuntimeErr>() {
        return of_runtime(error).is_some_and(|error| Sqlx::is_conflict(&**error));
    }
    if let Some(error) = error.downcast_ref::<TransactionError>() {
        return error.kind == TransactionErrorKind::Conflict;
    }
    let cause = cause_of_closure::<DbErr>(error).or_else(|| cause_of_closure::<TransactionError>(error));
    cause.map_or_else(|| Sqlx::is_conflict(error), is_conflict)
}

/// Returns what has failed in a transaction with a closure, or that transaction's own error.
fn cause_of_closure<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    Some(match error.downcast_ref::<ClosureError<E>>()? {
        ClosureError::Connection(error) => error,
        ClosureError::Transaction(error) => error,
    })
}
