//! Rolls back a part of a transaction on its own.

use std::ops::Deref;

use super::{Transaction, TransactionError};
use crate::store::TransactionErrorKind;

/// A part of a [`Transaction`] that can be rolled back on its own. If it is dropped without [`commit`](Self::commit),
/// it is rolled back before the next statement or the commit of the transaction.
///
/// ```
/// use tokio_postgres::{error::SqlState, types::Type};
/// use tonic::Status;
/// use tonic_idempotency::Transaction;
///
/// /// Inserts a label if it does not exist.
/// async fn label(transaction: &Transaction, name: &str) -> Result<(), Status> {
///     let savepoint = transaction.savepoint().await?;
///     let inserted = savepoint.execute_typed("INSERT INTO labels (name) VALUES ($1)", &[(&name, Type::TEXT)]).await;
///     match inserted {
///         Ok(_) => savepoint.commit().await?,
///         Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => savepoint.roll_back().await?,
///         Err(error) => return Err(error.into()),
///     }
///     Ok(())
/// }
/// ```
///
/// - **Nesting.** Savepoints nest in the order in which they are set, through whatever handle, and each statement belongs
///   to the innermost one. So do not set savepoints in tasks that run at once.
/// - **The end of a savepoint** ends those that were set inside of it, in the same way: a commit keeps their writes, a
///   rollback does not. After that, statements of their handles, and of clones of these, fail with
///   [`TransactionErrorKind::SavepointEnded`]; the transaction goes on.
/// - **A conflict** in a savepoint that is rolled back does not fail the call: after a deadlock, say, the handler may go
///   on. A transaction that loses to another because of its isolation level will most likely lose again when it
///   commits.
#[derive(Debug)]
#[must_use = "a savepoint that is dropped is rolled back"]
pub struct Savepoint {
    /// A handle of this level.
    transaction: Transaction,
}

impl Savepoint {
    /// Releases the savepoint: the writes since then remain part of the transaction.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] if a statement since then has failed: these writes are rolled back. Also if the savepoint
    /// has ended with an outer one, the connection is lost, or the call has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the savepoint is released or rolled back, and the transaction goes on.
    pub async fn commit(self) -> Result<(), TransactionError> {
        let (session, level) = self.transaction.session();
        let connection = session.enter(level).await?;
        let Some(released) = connection.change(|levels| levels.release(level)) else {
            return Err(TransactionErrorKind::SavepointEnded.into());
        };
        let released = connection.wait(released).await;
        if matches!(&released, Err(error) if error.as_db_error().is_some()) {
            session.levels().not_released(level);
        }
        released
    }

    /// Rolls back the writes since the savepoint, and releases it.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] if the savepoint has ended with an outer one, the connection is lost, or the call has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the savepoint is rolled back all the same.
    pub async fn roll_back(self) -> Result<(), TransactionError> {
        let (session, level) = self.transaction.session();
        let connection = session.enter(level).await?;
        let rolled_back = connection.change(|levels| {
            levels.roll_back(level);
            levels.roll_back_due()
        });
        match rolled_back {
            Some(rolled_back) => connection.wait(rolled_back).await,
            None => Err(TransactionErrorKind::SavepointEnded.into()),
        }
    }
}

impl Transaction {
    /// Sets a savepoint. Later writes can be rolled back to it on their own, after a failed statement, for example.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no savepoint is left.
    pub async fn savepoint(&self) -> Result<Savepoint, TransactionError> {
        let connection = self.enter().await?;
        let (level, set) = connection.set_savepoint();
        let savepoint = Savepoint { transaction: self.inside(level) };
        let set = connection.wait(set).await;
        if matches!(&set, Err(error) if error.as_db_error().is_some()) {
            self.session().0.levels().not_set(level);
        }
        set.map(|()| savepoint)
    }
}

impl Deref for Savepoint {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.transaction
    }
}

impl Drop for Savepoint {
    fn drop(&mut self) {
        let (session, level) = self.transaction.session();
        session.levels().roll_back(level);
    }
}
