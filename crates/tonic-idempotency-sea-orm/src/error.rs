//! Makes and classifies the errors of sea-orm.

use std::sync::Arc;

use sea_orm::{DbErr, RuntimeErr};
use tonic_idempotency::store::TransactionErrorKind;

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

pub(crate) fn of_runtime(error: &RuntimeErr) -> Option<&Arc<sqlx::Error>> {
    if let RuntimeErr::SqlxError(error) = error { Some(error) } else { None }
}
