//! A connection from a diesel pool, with the operations that the store needs: transactions, statements and cancellation.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use diesel::{connection::CacheSize, result::Error};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use futures_util::future::{OptionFuture, join};
use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::NoTls;
use tonic_idempotency::store::driver::{Connection, DriverError, Statement, cancel_in_time};

use crate::{
    depth,
    error::{driver_error, is_unrecognised},
    pool::PooledConnection,
    row::DieselRow,
    statement::Bound,
};

/// The time that a rollback waits for a statement that was given up. After it, the rollback asks the server to cancel that statement.
const PATIENCE: Duration = Duration::from_millis(250);

/// The SQLSTATE of BEGIN in an open transaction.
const OPEN_TRANSACTION: &str = "25001";

/// The SQLSTATE of any statement in a transaction that has failed.
const FAILED_TRANSACTION: &str = "25P02";

/// The SQLSTATE of an invalid savepoint.
const INVALID_SAVEPOINT: &str = "3B001";

/// The SQLSTATE of a serialization failure.
const SERIALIZATION_FAILURE: &str = "40001";

/// Fails in a transaction that has failed.
const HAS_NOT_FAILED: &str = "SAVEPOINT idempotency_end";

/// Counts how often the prepared statements of all connections have become stale.
pub(crate) type Generation = AtomicUsize;

/// A connection of [`Diesel`](crate::Diesel).
pub struct DieselConnection {
    /// `None` once it is closed or given back.
    connection: Option<PooledConnection>,
    generation: Arc<Generation>,
    /// The runtime in which the connection is given back to the pool. A pool may need a runtime for that.
    runtime: Handle,
    is_lost: bool,
    /// Whether the handler has had it.
    is_handed_out: bool,
}

impl DieselConnection {
    /// Wraps a connection of the pool. Must be called inside of a runtime.
    pub(crate) fn new(connection: PooledConnection, generation: &Arc<Generation>) -> Self {
        Self {
            connection: Some(connection),
            generation: Arc::clone(generation),
            runtime: Handle::current(),
            is_lost: false,
            is_handed_out: false,
        }
    }

    /// Runs a statement. `before`, if given, is sent first, in the same round trip. The statement does not wait for the answer to `before`.
    /// If the statement still has to be prepared, `before` is sent ahead of the preparation.
    async fn run(&mut self, before: Option<&str>, statement: Statement<'_>) -> Result<Vec<DieselRow>, DriverError> {
        let generation = self.generation.load(Ordering::Relaxed);
        let bound = Bound::new(statement, generation);
        let shared: &AsyncPgConnection = self;
        let rows = bound.load(shared);
        let rows = match before {
            Some(before) => {
                let (before, rows) = join(send(shared, before), rows).await;
                before.and(rows)
            }
            None => rows.await,
        };
        let error = match rows {
            Ok(rows) => return Ok(rows),
            Err(error) => self.failed(error).await,
        };
        if error.is_stale() {
            // Only the first caller that finds this generation stale counts it.
            let _ = self.generation.compare_exchange(
                generation,
                generation.wrapping_add(1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
        Err(error)
    }

    /// Does the work of [`commit`](Connection::commit). COMMIT is sent only after the answer to the record's statement. diesel may have to
    /// prepare that statement first, and COMMIT would overtake it.
    async fn committed(&mut self, roll_back: Option<&str>, record: Option<Statement<'_>>) -> Result<(), DriverError> {
        if roll_back.is_none() && depth::has_inner(self) {
            // Since the inner transaction was given up, diesel counts wrong. It may have told the handler that its changes were kept.
            let message = "a transaction of diesel inside of the call's was given up before its end";
            return Err(DriverError::answered(INVALID_SAVEPOINT, message, false, Error::BrokenTransactionManager));
        }
        if let Some(record) = record {
            self.run(roll_back, record).await?;
            return self.execute("COMMIT").await;
        }
        if let Some(roll_back) = roll_back {
            self.execute(roll_back).await?;
        }
        // The savepoint fails in a failed transaction, and outside of a transaction. COMMIT is not executed then.
        self.execute("SAVEPOINT idempotency_end; COMMIT").await
    }

    /// Converts an error of diesel, and notes whether the connection was lost with it.
    async fn failed(&mut self, error: Error) -> DriverError {
        let is_lost = is_unrecognised(&error) && send(self, "").await.is_err();
        let error = if is_lost { DriverError::lost(error) } else { driver_error(error) };
        self.is_lost |= error.is_connection_lost();
        error
    }

    /// Forgets the prepared statements: one of the handler's may have failed because it is stale. diesel does not tell, and would keep it. A
    /// connection without a cache has one from then on.
    fn forget_statements(&mut self) {
        for size in [CacheSize::Disabled, CacheSize::Unbounded] {
            self.set_prepared_statement_cache_size(size);
        }
    }
}

/// Executes statements by the protocol of simple queries.
async fn send(mut connection: &AsyncPgConnection, sql: &str) -> Result<(), Error> {
    connection.batch_execute(sql).await
}

impl Connection for DieselConnection {
    type Row = DieselRow;

    async fn execute(&mut self, sql: &str) -> Result<(), DriverError> {
        match send(self, sql).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failed(error).await),
        }
    }

    async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<DieselRow>, DriverError> {
        self.run(None, statement).await
    }

    async fn begin(
        &mut self,
        begin: &str,
        first: Statement<'_>,
        savepoint: Option<&str>,
    ) -> Result<Vec<DieselRow>, DriverError> {
        // Counts the transaction before BEGIN is sent. If the future is dropped, the pool does not give this connection to anyone.
        let counted = depth::begins(self);
        counted.map_err(|error| {
            DriverError::answered(OPEN_TRANSACTION, "the connection came with a transaction", false, error)
        })?;
        let rows = self.run(Some(begin), first).await?;
        if let Some(savepoint) = savepoint {
            self.execute(savepoint).await?;
        }
        Ok(rows)
    }

    async fn commit(&mut self, roll_back: Option<&str>, record: Option<Statement<'_>>) -> Result<(), DriverError> {
        match self.committed(roll_back, record).await {
            Ok(()) => {
                depth::has_ended(self);
                Ok(())
            }
            Err(error) if error.code() == Some(FAILED_TRANSACTION) && self.is_in_conflict() => {
                let message = "a statement of the handler could not be serialized";
                Err(DriverError::answered(SERIALIZATION_FAILURE, message, false, error))
            }
            Err(error) => Err(error),
        }
    }

    /// A statement that was given up is cancelled if it does not end soon. The connection is closed then. Otherwise, the request to cancel
    /// could arrive after the rollback, and cancel another call's statement.
    async fn roll_back(&mut self) -> Result<(), DriverError> {
        let ((not_failed, rolled_back), is_cancelled) = {
            let not_failed = self.is_handed_out.then(|| send(self, HAS_NOT_FAILED));
            let mut rolling_back = pin!(join(OptionFuture::from(not_failed), send(self, "ROLLBACK")));
            match timeout(PATIENCE, &mut rolling_back).await {
                Ok(rolled_back) => (rolled_back, false),
                Err(_) => {
                    self.cancel().await;
                    (rolling_back.await, true)
                }
            }
        };
        match rolled_back {
            Ok(()) if is_cancelled => {
                self.is_lost = true;
                Err(DriverError::lost("a statement was cancelled, and the request may still arrive"))
            }
            Ok(()) => {
                depth::has_ended(self);
                if let Some(Err(_)) = not_failed {
                    self.forget_statements();
                }
                Ok(())
            }
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Sends the request to cancel without encryption, as libpq did before version 17. With `sslmode=require`, it is not sent.
    async fn cancel(&self) {
        let token = self.cancel_token();
        cancel_in_time(token.cancel_query(NoTls)).await;
    }

    fn hand_out(&mut self) {
        self.is_handed_out = true;
    }

    fn is_in_conflict(&mut self) -> bool {
        depth::is_in_conflict(self)
    }

    fn is_closed(&self) -> bool {
        self.is_lost
    }

    fn close(mut self) {
        if let Some(connection) = self.connection.take() {
            let _entered = self.runtime.enter();
            connection.close();
        }
    }
}

impl Deref for DieselConnection {
    type Target = AsyncPgConnection;

    fn deref(&self) -> &AsyncPgConnection {
        self.connection.as_ref().expect("only `close` and `drop` take it out, and both end this")
    }
}

impl DerefMut for DieselConnection {
    fn deref_mut(&mut self) -> &mut AsyncPgConnection {
        self.connection.as_mut().expect("only `close` and `drop` take it out, and both end this")
    }
}

impl Drop for DieselConnection {
    fn drop(&mut self) {
        let _entered = self.runtime.enter();
        drop(self.connection.take());
    }
}

impl fmt::Debug for DieselConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DieselConnection").finish_non_exhaustive()
    }
}
