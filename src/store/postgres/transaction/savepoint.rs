//! [`Savepoint`].

use std::{mem, ops::Deref};

use super::{Transaction, TransactionError, session::roll_back_to};

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
#[derive(Debug)]
#[must_use = "a savepoint that is dropped is rolled back"]
pub struct Savepoint {
    transaction: Transaction,
    /// Empty after its end.
    name: String,
}

impl Savepoint {
    pub(super) fn new(transaction: Transaction, name: String) -> Self {
        Self { transaction, name }
    }

    /// Releases the savepoint: the writes since then remain part of the transaction.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] if a statement since then has failed: these writes are rolled back. Also if the connection
    /// is lost, or the call has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the savepoint may have been released or not.
    pub async fn commit(mut self) -> Result<(), TransactionError> {
        let name = mem::take(&mut self.name);
        let released = self.transaction.batch_execute(&format!("RELEASE SAVEPOINT {name}")).await;
        if released.is_err() {
            self.transaction.session().drop_savepoint(name);
        }
        released
    }

    /// Rolls back the writes since the savepoint, and releases it.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] if the connection is lost, or the call has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the statement was sent, the server rolls back all the same.
    pub async fn roll_back(mut self) -> Result<(), TransactionError> {
        let name = mem::take(&mut self.name);
        self.transaction.batch_execute(&roll_back_to(&name)).await?;
        self.transaction.session().forget_conflict();
        Ok(())
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
        if !self.name.is_empty() {
            self.transaction.session().drop_savepoint(mem::take(&mut self.name));
        }
    }
}
