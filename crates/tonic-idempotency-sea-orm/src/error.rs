//! Makes and classifies the errors of sea-orm.

use std::{error::Error, sync::Arc};

use sea_orm::{DbErr, RuntimeErr, TransactionError as ClosureError};
use tonic_idempotency::store::{TransactionErrorKind, driver::Driver as _};
use tonic_idempotency_sqlx::Sqlx;

use crate::TransactionError;

/// Makes the error of a handle whose call or savepoint has ended.
pub(crate) fn ended(kind: TransactionErrorKind) -> DbErr {
    DbErr::Conn(RuntimeErr::Internal(kind.to_string()))
}

/// Returns the kind of an error of [`ended`].
pub(crate) fn kind_of_ended(error: &DbErr) -> Option<TransactionErrorKind> {
    let DbErr::Conn(RuntimeErr::Internal(text)) = error else { return None };
    let kinds = [TransactionErrorKind::Ended, TransactionErrorKind::SavepointEnded];
    kinds.into_iter().find(|kind| kind.to_string() == *text)
}

/// Returns the error of sqlx.
pub(crate) fn sqlx_error(error: &DbErr) -> Option<&Arc<sqlx::Error>> {
    match error {
        DbErr::Conn(error) | DbErr::Exec(error) | DbErr::Query(error) => of_runtime(error),
        _ => None,
    }
}

fn of_runtime(error: &RuntimeErr) -> Option<&Arc<sqlx::Error>> {
    if let RuntimeErr::SqlxError(error) = error { Some(error) } else { None }
}

/// Returns whether an error says that a statement has lost against another transaction. Not all errors of sea-orm have their
/// cause as their source.
pub(crate) fn is_conflict(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<DbErr>() {
        return sqlx_error(error).is_some_and(|error| Sqlx::is_conflict(&**error));
    }
    if let Some(error) = error.downcast_ref::<RuntimeErr>() {
        return of_runtime(error).is_some_and(|error| Sqlx::is_conflict(&**error));
    }
    if let Some(error) = error.downcast_ref::<TransactionError>() {
        return error.kind() == TransactionErrorKind::Conflict;
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
