//! Classifies the errors of sqlx and of its pool.

use std::{error::Error as StdError, sync::Arc};

use sqlx::{
    Error,
    postgres::{PgDatabaseError, PgSeverity},
};
use tonic_idempotency::store::driver::{self, AcquireError, AcquireErrorKind, DriverError};

/// The SQLSTATE of BEGIN in an open transaction.
const OPEN_TRANSACTION: &str = "25001";

/// Classifies an error of sqlx for the store, for a driver on top of this one. `source` is the error that the
/// [`DriverError`] keeps.
pub fn driver_error(error: &Error, source: impl Into<Box<dyn StdError + Send + Sync>>) -> DriverError {
    match error {
        Error::Database(_) => match answer(error) {
            Some(answer) if is_stale_plan(answer) => DriverError::stale_plan(answer.message(), source),
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
        Error::Io(error) if driver::is_of_network(error) => DriverError::lost(source),
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
        Error::Io(error) if driver::is_of_network(error) => AcquireErrorKind::Unreachable,
        Error::PoolClosed => AcquireErrorKind::Unreachable,
        // Also if none could be made in time: the store asks whether the pool is exhausted.
        Error::PoolTimedOut => AcquireErrorKind::NoneFree,
        _ => AcquireErrorKind::Misconfigured,
    };
    AcquireError::new(kind, error)
}

/// Returns whether an error of sqlx says that a statement has lost against another transaction, or is stale.
pub(crate) fn is_conflict(error: &Error) -> bool {
    answer(error).is_some_and(|answer| driver::is_conflict(answer.code()) || is_stale_plan(answer))
}

/// Returns whether the server refuses a prepared statement that would have other columns now.
fn is_stale_plan(answer: &PgDatabaseError) -> bool {
    answer.routine() == Some("RevalidateCachedQuery")
}

/// Returns the server's answer.
fn answer(error: &Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn io(kind: io::ErrorKind) -> Error {
        Error::Io(kind.into())
    }

    fn other() -> Box<dyn StdError + Send + Sync> {
        "something else".into()
    }

    /// All variants but those of the server's answers, of a connection that fails and of a pool.
    fn of_the_client() -> Vec<Error> {
        vec![
            Error::AnyDriverError(other()),
            Error::ColumnDecode { index: "0".to_owned(), source: other() },
            Error::ColumnIndexOutOfBounds { index: 1, len: 1 },
            Error::ColumnNotFound("clock".to_owned()),
            Error::Configuration(other()),
            Error::Decode(other()),
            Error::Encode(other()),
            Error::InvalidArgument("too many".to_owned()),
            Error::Protocol("unknown message type".to_owned()),
            Error::RowNotFound,
            Error::Tls(other()),
            Error::TypeNotFound { type_name: "hstore".to_owned() },
            Error::WorkerCrashed,
            io(io::ErrorKind::InvalidData),
            io(io::ErrorKind::InvalidInput),
        ]
    }

    #[test]
    fn what_the_client_fails_at_is_no_lost_connection() {
        for error in of_the_client() {
            let text = error.to_string();
            let explained = explained(error);
            assert!(!explained.is_connection_lost() && explained.code().is_none(), "{text}");
        }
        for error in of_the_client() {
            let text = error.to_string();
            assert_eq!(*acquire_error(error).kind(), AcquireErrorKind::Misconfigured, "{text}");
        }
    }

    #[test]
    fn what_the_network_fails_at_is_one() {
        for kind in [io::ErrorKind::ConnectionReset, io::ErrorKind::UnexpectedEof, io::ErrorKind::TimedOut] {
            assert!(explained(io(kind)).is_connection_lost(), "{kind}");
            assert_eq!(*acquire_error(io(kind)).kind(), AcquireErrorKind::Unreachable, "{kind}");
        }
        assert_eq!(*acquire_error(Error::PoolClosed).kind(), AcquireErrorKind::Unreachable);
        assert_eq!(*acquire_error(Error::PoolTimedOut).kind(), AcquireErrorKind::NoneFree);
    }

    #[test]
    fn a_transaction_that_was_not_expected_is_an_answer() {
        for error in [Error::BeginFailed, Error::InvalidSavePointStatement] {
            assert_eq!(explained(error).code(), Some(OPEN_TRANSACTION));
        }
    }
}
