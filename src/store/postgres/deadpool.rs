//! [`Deadpool`], and the store on it.

use std::{fmt, time::Instant};

use deadpool_postgres::Pool;

use super::{
    connection::DeadpoolConnection, error::acquire_error, statement::Statements, transaction::TransactionSession,
};
use crate::store::{
    SqlStore,
    driver::{AcquireError, Driver, DriverError},
};

/// The store on tokio-postgres, with a pool of deadpool.
pub type PostgresStore = SqlStore<Deadpool>;

/// The driver for tokio-postgres, with a pool of deadpool.
#[derive(Clone)]
pub struct Deadpool {
    pool: Pool,
    statements: Statements,
}

impl SqlStore<Deadpool> {
    /// Prepares the store's statements once for each connection, which takes one more round trip then. Defaults to off:
    /// the server parses and plans a statement each time, which works everywhere. `docs/benchmarks.md` shows how much
    /// this saves.
    ///
    /// **Not behind PgBouncer** (or another pooler) in transaction mode, unless the pooler tracks prepared statements:
    /// PgBouncer does from version 1.21, with `max_prepared_statements`. Without tracking, clients share a server
    /// connection, and find there the statements of other clients under the same names.
    ///
    /// A stale statement is prepared again: its function was replaced, or the server has forgotten it. If a
    /// transactional handler executes `DEALLOCATE ALL`, the statement that writes the record is lost, and the call is
    /// rolled back.
    pub fn prepared_statements(self) -> Self {
        self.with_driver(|driver| Deadpool { statements: Statements::Prepared, ..driver })
    }
}

impl From<Pool> for Deadpool {
    fn from(pool: Pool) -> Self {
        Self { pool, statements: Statements::default() }
    }
}

impl Driver for Deadpool {
    type Connection = DeadpoolConnection;
    type Session = TransactionSession;

    fn with_settings_of(self, other: &Self) -> Self {
        Self { statements: other.statements, ..self }
    }

    async fn acquire(&self) -> Result<DeadpoolConnection, AcquireError> {
        let connection = self.pool.get().await.map_err(acquire_error)?;
        Ok(DeadpoolConnection::new(connection, self.statements))
    }

    fn max_connections(&self) -> usize {
        self.pool.status().max_size
    }

    fn is_exhausted(&self) -> bool {
        let status = self.pool.status();
        status.available == 0 && status.size >= status.max_size
    }

    fn distrust(&self, since: Instant) -> usize {
        self.pool.retain(|_, metrics| metrics.recycled.unwrap_or(metrics.created) >= since).removed.len()
    }

    fn forget_if_stale(&self, error: &DriverError) -> bool {
        let stale = self.statements == Statements::Prepared && error.is_stale();
        if stale {
            self.pool.manager().statement_caches.clear();
        }
        stale
    }
}

impl fmt::Debug for Deadpool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadpool").field("statements", &self.statements).finish_non_exhaustive()
    }
}
