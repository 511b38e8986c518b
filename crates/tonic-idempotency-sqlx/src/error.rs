//! What an error of sqlx says.

use std::error::Error as StdError;

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

pub(crate) fn driver_error(error: Error) -> DriverError {
    match &error {
        Error::Database(_) => match answer(&error) {
            Some(answer) => {
                let (code, message) = (answer.code().to_owned(), answer.message().to_owned());
                let is_fatal = matches!(answer.severity(), PgSeverity::Fatal | PgSeverity::Panic);
                DriverError::answered(code, message, is_fatal, error)
            }
            None => DriverError::unanswered(error),
        },
        // sqlx counts a transaction that is open already; or BEGIN succeeded, and none is open.
        Error::BeginFailed | Error::InvalidSavePointStatement => {
            DriverError::answered(OPEN_TRANSACTION, "the connection came with a transaction", false, error)
        }
        Error::Io(_) | Error::Protocol(_) | Error::Tls(_) | Error::WorkerCrashed => DriverError::lost(error),
        _ => DriverError::unanswered(error),
    }
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
