use std::{mem, ops::Deref};

use super::{Transaction, TransactionError, session::roll_back_to};

/// A part of a [`Transaction`] that can be rolled back alone. Dropped without [`commit`](Self::commit), it is rolled back
/// before the transaction's next statement, or before it is committed.
///
/// ```
/// use tokio_postgres::{error::SqlState, types::Type};
/// use tonic::Status;
/// use tonic_idempotency::Transaction;
///
/// /// Inserts a label, or finds it there.
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
#[must_use = "dropped, it is rolled back"]
pub struct Savepoint {
    transaction: Transaction,
    /// Empty once it is released.
    name: String,
}

impl Savepoint {
    pub(super) fn new(transaction: Transaction, name: String) -> Self {
        Self { transaction, name }
    }

    /// Makes what was written since part of the transaction.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] where a statement since had failed: it has to be rolled back then, and is.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may have been done or not.
    pub async fn commit(mut self) -> Result<(), TransactionError> {
        let name = mem::take(&mut self.name);
        let released = self.transaction.batch_execute(&format!("RELEASE SAVEPOINT {name}")).await;
        if released.is_err() {
            self.transaction.session().drop_savepoint(name);
        }
        released
    }

    /// Rolls back what was written since.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] where the connection is lost, or the call has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it is done all the same.
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
