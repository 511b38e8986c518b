//! The statuses for failed statements and connections. The caller gets a short message, the log the cause.

use deadpool_postgres::PoolError;
use tokio_postgres::error::{DbError, SqlState};
use tonic::{Code, Status};
use tonic_idempotency::store::{TransactionError, TransactionErrorKind};
use tonic_types::{ErrorDetails, StatusExt};

pub(crate) fn of_pool(error: &PoolError) -> Status {
    tracing::warn!(error = %chain(error), "cannot get a database connection");
    Status::unavailable("the database is unavailable; try again")
}

pub(crate) fn of_statement(error: &tokio_postgres::Error) -> Status {
    if error.is_closed() {
        tracing::warn!(error = %chain(error), "the database connection was lost");
        return Status::unavailable("the database is unavailable; try again");
    }
    let Some(refused) = error.as_db_error() else {
        tracing::error!(error = %chain(error), "a statement failed");
        return Status::internal("a database statement failed");
    };
    of_refusal(refused)
}

/// Converts an error in the call's transaction. All errors except a refused statement are converted by the layer.
pub(crate) fn of_transaction(error: TransactionError) -> Status {
    match error.as_db_error() {
        Some(refused) if error.kind() == TransactionErrorKind::Refused => of_refusal(refused),
        _ => error.into(),
    }
}

/// Converts the server's refusal of a statement, by its SQLSTATE and the name of the violated constraint.
fn of_refusal(error: &DbError) -> Status {
    // The name of the constraint, such as `projects_fk_cluster`, tells which resource is missing.
    if error.code() == &SqlState::FOREIGN_KEY_VIOLATION
        && let Some((_, missing)) = error.constraint().and_then(|name| name.rsplit_once("_fk_"))
    {
        return not_found(missing);
    }
    if error.code() == &SqlState::INSUFFICIENT_PRIVILEGE {
        tracing::warn!(%error, "a statement was refused");
        return Status::permission_denied("the user is not allowed to do this");
    }
    if is_away(error.code()) {
        tracing::warn!(%error, "the database is shutting down, or has become a standby");
        return Status::unavailable("the database is unavailable; try again");
    }
    tracing::error!(%error, "a statement failed");
    Status::internal("a database statement failed")
}

/// Returns NOT_FOUND: the resource does not exist in the organisation, or the user may not see it.
pub(crate) fn not_found(what: &str) -> Status {
    let description = format!("{what} not found in your organization");
    let details = ErrorDetails::with_resource_info(what, "", "", &description);
    Status::with_error_details(Code::NotFound, description, details)
}

fn is_away(code: &SqlState) -> bool {
    [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::CRASH_SHUTDOWN,
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ]
    .contains(code)
}

/// Formats an error and its causes in one line.
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
