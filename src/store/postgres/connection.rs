//! Runs the store's statements on a connection of deadpool, in as few round trips as possible.

use std::{fmt, ops::Deref};

use deadpool_postgres::{ClientWrapper, Object};
use futures_util::future::{join, join3};
use tokio_postgres::{NoTls, Row};

use super::{
    error::driver_error,
    statement::{Prepared, Statements, value},
};
use crate::store::driver::{self, Connection, DriverError, Statement, Value, cancel_in_time};

/// A connection of [`Deadpool`](super::Deadpool).
pub struct DeadpoolConnection {
    /// `None` once it is closed.
    connection: Option<Object>,
    statements: Statements,
}

impl DeadpoolConnection {
    pub(super) fn new(connection: Object, statements: Statements) -> Self {
        Self { connection: Some(connection), statements }
    }

    /// Forgets the prepared statements of all connections of the pool.
    pub(super) fn forget_statements(&self) {
        if let Some(pool) = self.connection.as_ref().and_then(Object::pool) {
            pool.manager().statement_caches.clear();
        }
    }

    /// As [`begin`](Connection::begin), in one round trip. A statement that is not prepared yet takes one more,
    /// before.
    async fn begun(
        &self,
        begin: &str,
        first: Statement<'_>,
        savepoint: Option<&str>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let first = self.statements.ready(self, first).await?;
        let (begin, first) = (self.batch_execute(begin), first.query(self));
        let Some(savepoint) = savepoint else {
            let (begun, rows) = join(begin, first).await;
            return begun.and(rows);
        };
        let (begun, rows, savepoint) = join3(begin, first, self.batch_execute(savepoint)).await;
        // If the first statement fails, so does the savepoint: the first error has the reason.
        let rows = begun.and(rows)?;
        savepoint.map(|()| rows)
    }

    /// As [`commit`](Connection::commit), in one round trip. If the record fails, its error is returned: COMMIT
    /// then rolls back, but succeeds.
    async fn committed(
        &self,
        roll_back: Option<&str>,
        record: Option<Statement<'_>>,
    ) -> Result<(), tokio_postgres::Error> {
        // Sent first, even before the statement of the record is prepared: if a statement of the handler has failed,
        // nothing can be prepared before the rollback.
        let rolled_back = async {
            match roll_back {
                Some(roll_back) => self.batch_execute(roll_back).await,
                None => Ok(()),
            }
        };
        let committed = async {
            let Some(record) = record else {
                // Fails in a transaction that has failed, and outside of any transaction.
                let alive = self.batch_execute("SAVEPOINT idempotency_end");
                let (alive, committed) = join(alive, self.batch_execute("COMMIT")).await;
                return alive.and(committed);
            };
            let record: Prepared<'_> = self.statements.ready(self, record).await?;
            let (recorded, committed) = join(record.query(self), self.batch_execute("COMMIT")).await;
            recorded?;
            committed
        };
        let (rolled_back, committed) = join(rolled_back, committed).await;
        rolled_back.and(committed)
    }
}

impl Connection for DeadpoolConnection {
    type Row = Row;

    async fn execute(&mut self, sql: &str) -> Result<(), DriverError> {
        self.batch_execute(sql).await.map_err(driver_error)
    }

    async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, DriverError> {
        let rows = async { self.statements.ready(self, statement).await?.query(self).await };
        rows.await.map_err(driver_error)
    }

    async fn begin(
        &mut self,
        begin: &str,
        first: Statement<'_>,
        savepoint: Option<&str>,
    ) -> Result<Vec<Row>, DriverError> {
        self.begun(begin, first, savepoint).await.map_err(driver_error)
    }

    async fn commit(&mut self, roll_back: Option<&str>, record: Option<Statement<'_>>) -> Result<(), DriverError> {
        self.committed(roll_back, record).await.map_err(driver_error)
    }

    /// A request to cancel is not encrypted, just as in libpq before version 17. With `sslmode=require` it is not sent.
    async fn cancel(&self) {
        if self.statements.cannot_be_cancelled() {
            return;
        }
        let token = self.cancel_token();
        cancel_in_time(token.cancel_query(NoTls)).await;
    }

    fn is_closed(&self) -> bool {
        self.deref().is_closed()
    }

    fn close(mut self) {
        drop(self.connection.take().map(Object::take));
    }
}

impl Deref for DeadpoolConnection {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.connection.as_ref().expect("only `close` and `drop` take it out")
    }
}

impl Drop for DeadpoolConnection {
    fn drop(&mut self) {
        if self.statements.are_unsettled() {
            drop(self.connection.take().map(Object::take));
        }
    }
}

impl fmt::Debug for DeadpoolConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadpoolConnection").finish_non_exhaustive()
    }
}

impl driver::Row for Row {
    fn value(&self, column: &str) -> Result<Value<'_>, Box<dyn std::error::Error + Send + Sync>> {
        value(self, column)
    }
}
