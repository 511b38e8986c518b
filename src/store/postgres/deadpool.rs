//! The driver on a pool of deadpool, and its setting for prepared statements.

use std::{fmt, time::Instant};

use deadpool::managed::Manager as _;
use deadpool_postgres::Pool;
use tokio_postgres::SimpleQueryMessage;

use super::{
    connection::DeadpoolConnection,
    error::{acquire_error, driver_error},
    prepared_statements::{Preparation, PreparedStatements},
    statement::Statements,
    transaction::TransactionSession,
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
    preparation: Preparation,
}

impl SqlStore<Deadpool> {
    /// Sets whether the store's statements are prepared, once for each connection, so that the server need not parse and plan them
    /// each time. Defaults to [`PreparedStatements::WhereKept`]: the store finds out by itself. `results/benchmarks.md` shows how much this
    /// saves, and `docs/database.md` what a new connection costs.
    ///
    /// A pooler such as PgBouncer in transaction mode, unless it tracks prepared statements, lets clients find those of other clients
    /// under the names of their own. So each connection is looked at before its first statement: it is the server's own if the server's
    /// process is that of the login, and a pooler tracks if it gives a prepared statement another name. Once a connection does
    /// neither, the pool's statements are parsed, with one log line, and none is cancelled.
    ///
    /// A stale statement is prepared again: its function was replaced, or the server has forgotten it. (Behind a pooler, one that was
    /// forgotten ends all preparation.) If a transactional handler executes `DEALLOCATE ALL`, the statement that writes the record is
    /// lost, and the call is rolled back.
    pub fn prepared_statements(self, setting: PreparedStatements) -> Self {
        self.with_driver(|driver| Deadpool { preparation: Preparation::new(setting), ..driver })
    }
}

impl From<Pool> for Deadpool {
    fn from(pool: Pool) -> Self {
        Self { pool, preparation: Preparation::default() }
    }
}

impl Driver for Deadpool {
    type Connection = DeadpoolConnection;
    type Session = TransactionSession;

    fn with_settings_of(self, other: &Self) -> Self {
        Self { preparation: Preparation::new(other.preparation.setting()), ..self }
    }

    async fn acquire(&self) -> Result<DeadpoolConnection, AcquireError> {
        let connection = self.pool.get().await.map_err(acquire_error)?;
        Ok(DeadpoolConnection::new(connection, Statements::new(self.preparation.clone())))
    }

    fn max_connections(&self) -> usize {
        self.pool.status().max_size
    }

    fn is_exhausted(&self) -> bool {
        let status = self.pool.status();
        status.available == 0 && status.size >= status.max_size
    }

    async fn ask_apart(&self, begin: &str, sql: &str) -> Result<i64, DriverError> {
        let connection = self.pool.manager().create().await.map_err(driver_error)?;
        connection.batch_execute(begin).await.map_err(driver_error)?;
        let messages = connection.simple_query(sql).await.map_err(driver_error)?;
        connection.batch_execute("ROLLBACK").await.map_err(driver_error)?;
        let number = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        });
        number.ok_or_else(|| DriverError::unanswered("no number"))
    }

    fn distrust(&self, since: Instant) -> usize {
        self.pool.retain(|_, metrics| metrics.recycled.unwrap_or(metrics.created) >= since).removed.len()
    }

    fn forget_if_stale(&self, error: &DriverError) -> bool {
        let stale = self.preparation.is_stale(error);
        if stale {
            self.pool.manager().statement_caches.clear();
        }
        stale
    }
}

impl fmt::Debug for Deadpool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadpool").field("prepared_statements", &self.preparation.setting()).finish_non_exhaustive()
    }
}
