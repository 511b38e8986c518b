//! Keeps diesel's transaction depth in step with the server: the first level is the transaction, further levels are savepoints.

use diesel::{
    connection::{
        InTransactionStatus, TransactionDepthChange, TransactionManagerStatus, ValidTransactionManagerStatus,
    },
    result::Error,
};
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, TransactionManager};

pub(crate) fn status(connection: &mut AsyncPgConnection) -> &mut TransactionManagerStatus {
    <AnsiTransactionManager as TransactionManager<AsyncPgConnection>>::transaction_manager_status_mut(connection)
}

/// Counts a transaction that is about to begin, so that those inside of it are savepoints, and so that the pool closes a connection
/// that comes back in it.
pub(crate) fn begins(connection: &mut AsyncPgConnection) -> Result<(), Error> {
    match status(connection) {
        TransactionManagerStatus::InError => Err(Error::BrokenTransactionManager),
        TransactionManagerStatus::Valid(valid) if valid.transaction_depth().is_some() => {
            Err(Error::AlreadyInTransaction)
        }
        TransactionManagerStatus::Valid(valid) => valid.change_transaction_depth(TransactionDepthChange::IncreaseDepth),
    }
}

/// Forgets the transaction, which has ended on the server.
pub(crate) fn has_ended(connection: &mut AsyncPgConnection) {
    *status(connection) = TransactionManagerStatus::default();
}

/// Returns whether a transaction inside of the call's has not ended: its future was dropped.
pub(crate) fn has_inner(connection: &mut AsyncPgConnection) -> bool {
    let depth = status(connection).transaction_depth();
    matches!(depth, Ok(Some(depth)) if depth.get() > 1)
}

/// Returns whether a statement had a serialization failure.
pub(crate) fn is_in_conflict(connection: &mut AsyncPgConnection) -> bool {
    matches!(
        status(connection),
        TransactionManagerStatus::Valid(ValidTransactionManagerStatus {
            in_transaction: Some(InTransactionStatus { requires_rollback_maybe_up_to_top_level: true, .. }),
            ..
        })
    )
}
