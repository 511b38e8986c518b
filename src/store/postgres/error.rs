//! Converts the errors of tokio-postgres and deadpool into those of drivers.

use std::{error::Error as _, io};

use deadpool_postgres::{HookError, PoolError, TimeoutType};
use tokio_postgres::{
    Error,
    error::{DbError, Severity},
};

use crate::store::driver::{AcquireError, AcquireErrorKind, DriverError, is_of_network};

/// The beginnings of the errors of a connection that is lost or could not be made. tokio-postgres tells its kinds only by their texts.
const NO_CONNECTION: [&str; 4] = [
    "connection closed",
    "error communicating with the server",
    "error connecting to server",
    "timeout waiting for server",
];

/// The server's routine that refuses a prepared statement which would have other columns now.
const STALE_PLAN: &str = "RevalidateCachedQuery";

pub(super) fn driver_error(error: Error) -> DriverError {
    match error.as_db_error() {
        Some(answer) if answer.routine() == Some(STALE_PLAN) => {
            DriverError::stale_plan(answer.message().to_owned(), error)
        }
        Some(answer) => {
            let (code, message) = (answer.code().code().to_owned(), answer.message().to_owned());
            DriverError::answered(code, message, is_fatal(answer), error)
        }
        None if has_no_connection(&error) => DriverError::lost(error),
        None => DriverError::unanswered(error),
    }
}

fn has_no_connection(error: &Error) -> bool {
    let text = error.to_string();
    NO_CONNECTION.iter().any(|beginning| text.starts_with(beginning))
}

/// Returns whether the server ends the connection after this answer. Poolers may leave out the field that has the same
/// text in every language.
fn is_fatal(answer: &DbError) -> bool {
    match answer.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => answer.severity() != "ERROR",
    }
}

pub(super) fn acquire_error(error: PoolError) -> AcquireError {
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

/// Returns the kind of the error of a connection that was not made.
fn kind_of_login(error: &Error) -> AcquireErrorKind {
    if let Some(answer) = error.as_db_error() {
        return AcquireErrorKind::Login(answer.code().code().to_owned());
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return if is_of_network(error) { AcquireErrorKind::Unreachable } else { AcquireErrorKind::Misconfigured };
        }
        cause = error.source();
    }
    if has_no_connection(error) { AcquireErrorKind::Unreachable } else { AcquireErrorKind::Misconfigured }
}
