//! What a caller is told when a statement, or getting a connection for one, failed. The cause goes to the log.

use deadpool_postgres::PoolError;
use tokio_postgres::error::{DbError, SqlState};
use tonic::{Code, Status};
use tonic_idempotency::store::{TransactionError, TransactionErrorKind};
use tonic_types::{ErrorDetails, StatusExt};

pub(crate) fn of_pool(error: &PoolError) -> Status {
    tracing::warn!(error = %chain(error), "no database connection");
    Status::unavailable("the database cannot be reached; try again")
}

pub(crate) fn of_statement(error: &tokio_postgres::Error) -> Status {
    if error.is_closed() {
        tracing::warn!(error = %chain(error), "the database connection was lost");
        return Status::unavailable("the database cannot be reached; try again");
    }
    let Some(refused) = error.as_db_error() else {
        tracing::error!(error = %chain(error), "a statement failed");
        return Status::internal("the database answered with an error");
    };
    of_refusal(refused)
}

/// In the call's own transaction. What it does not know itself, the layer's error does.
pub(crate) fn of_transaction(error: TransactionError) -> Status {
    match error.as_db_error() {
        Some(refused) if error.kind() == TransactionErrorKind::Refused => of_refusal(refused),
        _ => error.into(),
    }
}

fn of_refusal(refused: &DbError) -> Status {
    // The constraint says what the request pointed at: `projects_fk_cluster`.
    if refused.code() == &SqlState::FOREIGN_KEY_VIOLATION
        && let Some((_, missing)) = refused.constraint().and_then(|name| name.rsplit_once("_fk_"))
    {
        return not_found(missing);
    }
    if refused.code() == &SqlState::INSUFFICIENT_PRIVILEGE {
        tracing::warn!(error = %refused, "a statement was refused");
        return Status::permission_denied("not allowed to this user");
    }
    if is_shutdown(refused.code()) {
        tracing::warn!(error = %refused, "the database is shutting down");
        return Status::unavailable("the database cannot be reached; try again");
    }
    tracing::error!(error = %refused, "a statement failed");
    Status::internal("the database answered with an error")
}

/// The organisation has no such thing, or not one that this user may see.
pub(crate) fn not_found(what: &str) -> Status {
    let description = format!("no such {what} in your organization");
    let details = ErrorDetails::with_resource_info(what, "", "", &description);
    Status::with_error_details(Code::NotFound, description, details)
}

fn is_shutdown(code: &SqlState) -> bool {
    [&SqlState::ADMIN_SHUTDOWN, &SqlState::CRASH_SHUTDOWN, &SqlState::CANNOT_CONNECT_NOW].contains(&code)
}

/// An error with all that caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_message = cause.to_string();
        if !message.contains(&cause_message) {
            message = format!("{message}: {cause_message}");
        }
        source = cause.source();
    }
    message
}
