//! The driver's pool, of deadpool, and its setting for prepared statements.

use std::{fmt, time::Instant};

use deadpool::managed::Manager as _;
use deadpool_postgres::Pool;
use tokio_postgres::SimpleQueryMessage;

use super::{
    connection::DeadpoolConnection,
    error::{acquire_error, driver_error},
    prepared_statements::{Preparation, PreparedStatements},
    statement::Statements,
};
use crate::store::driver::{AcquireError, ConnectionPool, DriverError};

/// The driver for tokio-postgres, with a pool of deadpool.
#[derive(Clone)]
pub struct Deadpool {
    pool: Pool,
    preparation: Preparation,
}

impl Deadpool {
    pub(super) fn prepared_statements(&self) -> PreparedStatements {
        self.preparation.setting()
    }

    pub(super) fn with_prepared_statements(self, setting: PreparedStatements) -> Self {
        Self { preparation: Preparation::new(setting), ..self }
    }
}

impl From<Pool> for Deadpool {
    fn from(pool: Pool) -> Self {
        Self { pool, preparation: Preparation::default() }
    }
}

impl ConnectionPool for Deadpool {
    type Connection = DeadpoolConnection;

    async fn acquire(&self) -> Result<DeadpoolConnection, AcquireError> {
        let connection = self.pool.get().await.map_err(acquire_error)?;
        Ok(DeadpoolConnection::new(connection, Statements::new(self.preparation.clone())))
    }

    fn max_connections(&self) -> usize {
        self.pool.status().max_size
    }

    fn has_idle(&self) -> bool {
        self.pool.status().available > 0
    }

    fn is_exhausted(&self) -> bool {
        let status = self.pool.status();
        status.available == 0 && status.size >= status.max_size
    }

    async fn ask_apart(&self, begin: &str, sql: &str) -> Result<String, DriverError> {
        let connection = self.pool.manager().create().await.map_err(driver_error)?;
        connection.batch_execute(begin).await.map_err(driver_error)?;
        let messages = connection.simple_query(sql).await.map_err(driver_error)?;
        connection.batch_execute("ROLLBACK").await.map_err(driver_error)?;
        let text = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        text.ok_or_else(|| DriverError::unanswered("no text"))
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
        f.debug_struct("Deadpool").field("prepared_statements", &self.prepared_statements()).finish_non_exhaustive()
    }
}
