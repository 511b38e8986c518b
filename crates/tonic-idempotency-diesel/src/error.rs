//! Classifies the errors of diesel and of its pools.

use diesel::{
    ConnectionError,
    result::{DatabaseErrorKind, Error},
};
use diesel_async::pooled_connection::PoolError;
use tonic_idempotency::store::driver::{self, AcquireError, AcquireErrorKind, DriverError};

use crate::sqlstate::{STALE_PLAN, is_fatal, sqlstate, sqlstate_of_login};

/// How the errors of tokio-postgres begin that say that there is no connection.
const NO_CONNECTION: [&str; 5] = [
    "channel closed",
    "connection closed",
    "error communicating with the server",
    "error connecting to server",
    "timeout waiting for server",
];

pub(crate) fn driver_error(error: Error) -> DriverError {
    match answer(&error) {
        ReportedAnswer::Error { message: STALE_PLAN, .. } => DriverError::stale_plan(STALE_PLAN, error),
        ReportedAnswer::Error { code: Some(code), message } => {
            let (fatal, message) = (is_fatal(code, message), message.to_owned());
            DriverError::answered(code, message, fatal, error)
        }
        ReportedAnswer::Error { code: None, message } => DriverError::unrecognised(message.to_owned(), error),
        ReportedAnswer::Lost => DriverError::lost(error),
        ReportedAnswer::None => DriverError::unanswered(error),
    }
}

/// Returns whether the server has answered with an error whose SQLSTATE cannot be told.
pub(crate) fn is_unrecognised(error: &Error) -> bool {
    matches!(answer(error), ReportedAnswer::Error { code: None, .. })
}

/// Returns whether an error of diesel says that a statement has lost against another transaction, or is stale.
pub(crate) fn is_conflict(error: &Error) -> bool {
    match answer(error) {
        ReportedAnswer::Error { message: STALE_PLAN, .. } => true,
        ReportedAnswer::Error { code: Some(code), .. } => driver::is_conflict(code),
        _ => false,
    }
}

/// The server's answer, as an error of diesel reports it.
enum ReportedAnswer<'a> {
    Error { code: Option<&'static str>, message: &'a str },
    Lost,
    None,
}

fn answer(error: &Error) -> ReportedAnswer<'_> {
    match error {
        Error::DatabaseError(DatabaseErrorKind::ClosedConnection, _) => ReportedAnswer::Lost,
        Error::DatabaseError(DatabaseErrorKind::UnableToSendCommand, information) => {
            if begins_with_one_of(information.message(), &NO_CONNECTION) {
                ReportedAnswer::Lost
            } else {
                ReportedAnswer::None
            }
        }
        Error::DatabaseError(kind, information) => {
            ReportedAnswer::Error { code: sqlstate(kind, &**information), message: information.message() }
        }
        Error::RollbackErrorOnCommit { commit_error, .. } => answer(commit_error),
        _ => ReportedAnswer::None,
    }
}

fn begins_with_one_of(text: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| text.starts_with(beginning))
}

/// The error of a pool that has tried to make a connection.
pub(crate) fn kind_of_login(error: &PoolError) -> AcquireErrorKind {
    match error {
        PoolError::ConnectionError(ConnectionError::BadConnection(message)) => kind_without_answer(message),
        PoolError::ConnectionError(ConnectionError::CouldntSetupConfiguration(error))
        | PoolError::QueryError(error) => match (answer(error), error) {
            (ReportedAnswer::Error { code, message }, _) => {
                let code = sqlstate_of_login(message).or(code);
                AcquireErrorKind::Login(code.unwrap_or_default().to_owned())
            }
            (_, Error::DatabaseError(_, information)) => kind_without_answer(information.message()),
            _ => AcquireErrorKind::Misconfigured,
        },
        PoolError::ConnectionError(_) => AcquireErrorKind::Misconfigured,
    }
}

fn kind_without_answer(message: &str) -> AcquireErrorKind {
    if begins_with_one_of(message, &NO_CONNECTION) {
        AcquireErrorKind::Unreachable
    } else {
        AcquireErrorKind::Misconfigured
    }
}

#[cfg(feature = "bb8")]
pub(crate) fn of_bb8(error: diesel_async::pooled_connection::bb8::RunError) -> AcquireError {
    use diesel_async::pooled_connection::bb8::RunError;

    let kind = match &error {
        RunError::User(error) => kind_of_login(error),
        // Also if none could be made in time: the store asks whether the pool is exhausted.
        RunError::TimedOut => AcquireErrorKind::NoneFree,
    };
    AcquireError::new(kind, error)
}

#[cfg(feature = "deadpool")]
pub(crate) fn of_deadpool(error: diesel_async::pooled_connection::deadpool::PoolError) -> AcquireError {
    use deadpool::managed::{HookError, PoolError, TimeoutType};

    let kind = match &error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => kind_of_login(error),
        PoolError::Closed | PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
            AcquireErrorKind::Unreachable
        }
        PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(HookError::Message(_)) => {
            AcquireErrorKind::Misconfigured
        }
        PoolError::Timeout(TimeoutType::Wait) => AcquireErrorKind::NoneFree,
    };
    AcquireError::new(kind, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: DatabaseErrorKind, text: &str) -> Error {
        Error::DatabaseError(kind, Box::new(text.to_owned()))
    }

    /// The texts of all kinds of errors of tokio-postgres.
    const NOT_LOST: [&str; 12] = [
        "authentication error",
        "error deserializing column 1: something else",
        "error encoding message to server",
        "error parsing response from server",
        "error performing TLS handshake",
        "error serializing parameter 1: something else",
        "expected 1 parameters but got 2",
        "invalid column `clock`",
        "invalid configuration",
        "query returned an unexpected number of columns",
        "query returned an unexpected number of rows",
        "unexpected message from server",
    ];

    #[test]
    fn what_the_client_fails_at_is_no_lost_connection() {
        let others = [
            Error::NotFound,
            Error::AlreadyInTransaction,
            Error::NotInTransaction,
            Error::RollbackTransaction,
            Error::BrokenTransactionManager,
            Error::DeserializationError("something else".into()),
            Error::SerializationError("something else".into()),
            Error::QueryBuilderError("something else".into()),
        ];
        let texts = NOT_LOST.map(|text| of(DatabaseErrorKind::UnableToSendCommand, text));
        for error in others.into_iter().chain(texts) {
            let text = error.to_string();
            let explained = driver_error(error);
            assert!(!explained.is_connection_lost() && explained.code().is_none(), "{text}");
        }
    }

    #[test]
    fn what_the_network_fails_at_is_one() {
        for text in NO_CONNECTION {
            assert!(driver_error(of(DatabaseErrorKind::UnableToSendCommand, text)).is_connection_lost(), "{text}");
            assert_eq!(kind_without_answer(text), AcquireErrorKind::Unreachable, "{text}");
        }
        assert!(driver_error(of(DatabaseErrorKind::ClosedConnection, "")).is_connection_lost());
    }
}
