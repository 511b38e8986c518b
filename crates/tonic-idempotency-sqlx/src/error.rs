//! What an error of sqlx says.

use std::{error::Error as StdError, sync::Arc};

use sqlx::{
    Error,
    postgres::{PgDatabaseError, PgSeverity},
};
use tonic_idempotency::store::{
    TransactionErrorKind,
    driver::{self, AcquireError, AcquireErrorKind, DriverError},
};

use crate::TransactionError;

/// The SQLSTATE of BEGIN in an open transaction.
const OPEN_TRANSACTION: &str = "25001";

/// Says what an error of sqlx means to the store, for a driver on top of this one. `source` is the error that the
/// [`DriverError`] keeps.
pub fn driver_error(error: &Error, source: impl Into<Box<dyn StdError + Send + Sync>>) -> DriverError {
    match error {
        Error::Database(_) => match answer(error) {
            Some(answer) => {
                let is_fatal = matches!(answer.severity(), PgSeverity::Fatal | PgSeverity::Panic);
                DriverError::answered(answer.code().to_owned(), answer.message(), is_fatal, source)
            }
            None => DriverError::unanswered(source),
        },
        // sqlx counts a transaction that is open already; or BEGIN succeeded, and none is open.
        Error::BeginFailed | Error::InvalidSavePointStatement => {
            DriverError::answered(OPEN_TRANSACTION, "the connection came with a transaction", false, source)
        }
        Error::Io(_) | Error::Protocol(_) | Error::Tls(_) | Error::WorkerCrashed => DriverError::lost(source),
        _ => DriverError::unanswered(source),
    }
}

/// As [`driver_error`], with the error itself as the source.
pub(crate) fn explained(error: Error) -> DriverError {
    let error = Arc::new(error);
    driver_error(&error, Arc::clone(&error))
}

/// Returns the error of [`explained`].
pub(crate) fn sqlx_error(error: &DriverError) -> Option<&Error> {
    error.downcast_ref::<Arc<Error>>().map(Arc::as_ref)
}

pub(crate) fn acquire_error(error: Error) -> AcquireError {
    let kind = match &error {
        Error::Database(_) => {
            AcquireErrorKind::Login(answer(&error).map(|answer| answer.code().to_owned()).unwrap_or_default())
        }
        Error::Io(_) | Error::PoolClosed | Error::Protocol(_) => AcquireErrorKind::Unreachable,
        // Also if none could be made in time: the store asks whether the pool is exhausted.
        Error::PoolTimedOut => AcquireErrorKind::NoneFree,
        _ => AcquireErrorKind::Misconfigured,
    };
    AcquireError::new(kind, error)
}

/// Returns whether an error says that a statement has lost against another transaction.
pub(crate) fn is_conflict(error: &(dyn StdError + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<Error>() {
        return answer(error).is_some_and(|answer| driver::is_conflict(answer.code()));
    }
    if let Some(error) = error.downcast_ref::<TransactionError>() {
        return error.kind() == TransactionErrorKind::Conflict;
    }
    error.downcast_ref().is_some_and(DriverError::is_conflict)
}

/// Returns the server's answer.
fn answer(error: &Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}
