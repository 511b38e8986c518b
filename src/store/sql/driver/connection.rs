//! Runs statements on a connection, and reads their rows: the traits [`Connection`] and [`Row`].

use std::{fmt, time::Duration};

use tokio::time::timeout;

use super::{DriverError, Value};

/// The longest time that a request to cancel a statement may take.
const CANCELLATION: Duration = Duration::from_secs(5);

/// A statement of the store, with its parameters.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "taken apart by the authors of drivers")]
pub struct Statement<'a> {
    /// One statement, with `$1`, `$2` and so on.
    pub sql: &'a str,
    /// The parameters, with their types.
    pub parameters: &'a [Value<'a>],
}

/// A connection of a driver's pool. Dropping it gives it back to the pool as it is.
///
/// # Cancel safety
///
/// If a future of these methods is dropped, the statement may be carried out or not. The next one waits for its answer first.
pub trait Connection: Send + Sync + Sized + 'static {
    /// A row of an answer.
    type Row: Row;

    /// Executes statements without parameters, by the protocol of simple queries: several are separated by `;`, and none is
    /// a round trip all the same.
    ///
    /// # Errors
    ///
    /// [`DriverError`] if one of them fails; those that follow it are not executed then.
    fn execute(&mut self, sql: &str) -> impl Future<Output = Result<(), DriverError>> + Send;

    /// Runs a statement, and returns its rows.
    ///
    /// # Errors
    ///
    /// [`DriverError`] if it fails.
    fn query(&mut self, statement: Statement<'_>) -> impl Future<Output = Result<Vec<Self::Row>, DriverError>> + Send;

    /// Begins a transaction with this SQL, runs its first statement, whose rows are returned, and sets a savepoint if there is
    /// SQL for one. The first statement's columns `pid`, an integer, and `begun`, a double, are the server process and the
    /// beginning of the transaction in seconds, for a driver that cancels by them. By default one after the
    /// other; a driver that can send them together saves round trips.
    ///
    /// # Errors
    ///
    /// [`DriverError`] of the first part that failed.
    fn begin(
        &mut self,
        begin: &str,
        first: Statement<'_>,
        savepoint: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Self::Row>, DriverError>> + Send {
        async move {
            self.execute(begin).await?;
            let rows = self.query(first).await?;
            if let Some(savepoint) = savepoint {
                self.execute(savepoint).await?;
            }
            Ok(rows)
        }
    }

    /// Rolls back to a savepoint if there is SQL for it, runs the statement that writes the record if there is one, and commits.
    /// By default one after the other, as in [`begin`](Self::begin).
    ///
    /// # Errors
    ///
    /// [`DriverError`] of the first part that failed. In a transaction that has failed there must be an error, although
    /// COMMIT succeeds there, and rolls back; and outside of a transaction, which the handler has ended then.
    fn commit(
        &mut self,
        roll_back: Option<&str>,
        record: Option<Statement<'_>>,
    ) -> impl Future<Output = Result<(), DriverError>> + Send {
        async move {
            if let Some(roll_back) = roll_back {
                self.execute(roll_back).await?;
            }
            match record {
                Some(record) => drop(self.query(record).await?),
                // Fails there.
                None => self.execute("SAVEPOINT idempotency_end").await?,
            }
            self.execute("COMMIT").await
        }
    }

    /// Rolls the transaction back, after the statements that were sent before.
    ///
    /// # Errors
    ///
    /// [`DriverError`] if the connection is lost, or must not be used again: a driver that has asked the server to cancel a statement
    /// does not know whether the request has arrived yet.
    fn roll_back(&mut self) -> impl Future<Output = Result<(), DriverError>> + Send {
        self.execute("ROLLBACK")
    }

    /// Asks the server to cancel the statement that runs, which would hold its locks without a client. Gives up after a few
    /// seconds. The connection is closed afterwards: the request may arrive late. By default it does nothing.
    fn cancel(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Notes that the handler gets the connection, for a client library that does not tell which of its statements fail. By default it does
    /// nothing.
    fn hand_out(&mut self) {}

    /// Returns whether the client library has noticed that a statement of the transaction has lost against another transaction. By
    /// default it has not: for a library that does not tell.
    fn is_in_conflict(&mut self) -> bool {
        false
    }

    /// Returns whether the connection is known to be closed.
    fn is_closed(&self) -> bool;

    /// Closes the connection, which does not return to its pool.
    fn close(self);
}

/// A row of an answer.
pub trait Row: Send + Sync {
    /// Returns the value of a column.
    ///
    /// # Errors
    ///
    /// If there is no such column, or its type is none of [`Value`]'s.
    fn value(&self, column: &str) -> Result<Value<'_>, Box<dyn std::error::Error + Send + Sync>>;
}

/// Waits for a request to cancel a statement, but no longer than a few seconds, and logs its error: for [`Connection::cancel`].
pub async fn cancel_in_time<E: fmt::Display>(request: impl Future<Output = Result<(), E>>) {
    if let Ok(Err(error)) = timeout(CANCELLATION, request).await {
        tracing::debug!(%error, "a statement cannot be cancelled");
    }
}
