//! Nested transactions, as savepoints of a call's transaction.

use std::{fmt, ops::Deref, sync::Arc};

use sea_orm::{DbErr, TransactionSession};

use super::Transaction;
use crate::session::SavepointLevel;

/// A nested transaction: a savepoint of a [`Transaction`]. If it is dropped without [`commit`](Self::commit), it is rolled back
/// before the next statement, or before the transaction is committed.
///
/// ```
/// use sea_orm::{ConnectionTrait, DbErr, SqlErr, TransactionTrait};
/// use tonic_idempotency_sea_orm::Transaction;
///
/// /// Inserts a label if it does not exist.
/// async fn label(db: &Transaction) -> Result<(), DbErr> {
///     let nested = TransactionTrait::begin(db).await?;
///     match nested.execute_unprepared("INSERT INTO labels (name) VALUES ('urgent')").await {
///         Ok(_) => nested.commit().await,
///         Err(error) if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) => nested.rollback().await,
///         Err(error) => Err(error),
///     }
/// }
/// ```
///
/// - **Nesting.** Savepoints nest in the order in which they are set, through whatever handle, and each statement belongs
///   to the innermost one. So do not begin nested transactions in tasks that run at once.
/// - **The end of a savepoint** ends those that were set inside of it, in the same way: a commit keeps their writes, a
///   rollback does not. After that, statements of their handles, and of clones of these, fail; the transaction goes on.
/// - **A conflict** in a savepoint that is rolled back does not fail the call: after a deadlock, say, the handler may go
///   on. A transaction that has had a serialization failure will most likely have one again when it commits.
/// - **Isolation level and access mode** are set as sea-orm sets them, by `SET TRANSACTION` after `SAVEPOINT`. PostgreSQL refuses
///   another level than the transaction's, which is a setting of the procedure (`isolation`).
#[must_use = "a savepoint that is dropped is rolled back"]
pub struct Savepoint {
    /// A handle of this level.
    pub(super) transaction: Transaction,
    _level: SavepointLevel,
}

impl Savepoint {
    pub(super) fn new(level: SavepointLevel) -> Self {
        Self { transaction: Transaction::new(Arc::clone(&level.session), level.level), _level: level }
    }

    /// Releases the savepoint: the writes since then remain part of the transaction.
    ///
    /// # Errors
    ///
    /// [`DbErr`] if a statement since then has failed: these writes are rolled back. Also if the savepoint
    /// has ended with one around it, the connection is lost, or the call has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the savepoint is released or rolled back, and the transaction goes on.
    pub async fn commit(self) -> Result<(), DbErr> {
        self.session.release(self.level).await
    }

    /// Rolls back the writes since the savepoint, and releases it.
    ///
    /// # Errors
    ///
    /// [`DbErr`] if the savepoint has ended with one around it, the connection is lost, or the call has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the savepoint is rolled back all the same.
    pub async fn rollback(self) -> Result<(), DbErr> {
        self.session.roll_back_to(self.level).await
    }
}

#[tonic::async_trait]
impl TransactionSession for Savepoint {
    async fn commit(self) -> Result<(), DbErr> {
        self.commit().await
    }

    async fn rollback(self) -> Result<(), DbErr> {
        self.rollback().await
    }
}

impl Deref for Savepoint {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.transaction
    }
}

impl fmt::Debug for Savepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Savepoint").finish_non_exhaustive()
    }
}
