//! The statuses for failed statements and connections. The caller gets a short message, the log the cause.

use sqlx::postgres::PgDatabaseError;
use tonic::Status;
use tonic_idempotency::store::TransactionErrorKind;
use tonic_idempotency_sqlx::TransactionError;

use crate::failure::{chain, of_refusal};

/// Converts an error of the pool, or of a transaction's begin.
pub(super) fn of_begin(error: &sqlx::Error) -> Status {
    tracing::warn!(error = %chain(error), "cannot get a database connection");
    Status::unavailable("the database is unavailable; try again")
}

/// Converts the error of a statement, in the transaction of the call or of the handler. All errors except a refused statement
/// are converted by the layer's crate, which keeps them in the status: so the layer learns of conflicts.
pub(super) fn of_statement(error: sqlx::Error) -> Status {
    let error = TransactionError::from(error);
    match refusal(&error) {
        Some(refused) if error.kind() == TransactionErrorKind::Refused => {
            of_refusal(refused.code(), refused.constraint(), refused)
        }
        _ => error.into(),
    }
}

fn refusal(error: &TransactionError) -> Option<&PgDatabaseError> {
    error.as_sqlx_error()?.as_database_error()?.try_downcast_ref()
}
