//! Connections from a pool, and the settings of the operations on them.

use std::{fmt, sync::Arc, time::Duration};

use deadpool_postgres::Pool;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_postgres::Error;

use super::{sql::Sql, statement::Statements};
use crate::{store::Schema, telemetry::Chain};

/// The limits of a timeout. An operation without time would always fail; no caller waits longer, and a deadline must not
/// overflow.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(60 * 60)];

const TIMEOUT: Duration = Duration::from_secs(5);
const STATUS_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub(super) struct Connections {
    pool: Pool,
    statements: Statements,
    sql: Arc<Sql>,
    timeout: Duration,
    status_timeout: Duration,
    /// How many statuses may be overdue at once: each keeps a connection from the others.
    overdue_statuses: Arc<Semaphore>,
}

impl Connections {
    pub(super) fn new(pool: Pool) -> Self {
        let overdue_statuses = Arc::new(Semaphore::new(quarter(&pool)));
        let (statements, sql) = (Statements::default(), Arc::new(Sql::new(Schema::default())));
        Self { pool, statements, sql, timeout: TIMEOUT, status_timeout: STATUS_TIMEOUT, overdue_statuses }
    }

    pub(super) fn prepared_statements(self) -> Self {
        Self { statements: Statements::Prepared, ..self }
    }

    pub(super) fn schema(self, schema: Schema) -> Self {
        Self { sql: Arc::new(Sql::new(schema)), ..self }
    }

    pub(super) fn timeout(self, timeout: Duration) -> Self {
        let [shortest, longest] = TIMEOUTS;
        Self { timeout: timeout.clamp(shortest, longest), ..self }
    }

    pub(super) fn status_timeout(self, timeout: Duration) -> Self {
        let [shortest, longest] = TIMEOUTS;
        Self { status_timeout: timeout.clamp(shortest, longest), ..self }
    }

    /// The same settings for the connections of another pool.
    pub(super) fn of(&self, pool: Pool) -> Self {
        Self { pool, ..self.clone() }
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn sql(&self) -> &Sql {
        &self.sql
    }

    pub(super) fn statements(&self) -> Statements {
        self.statements
    }

    /// Returns the deadline of an operation that begins now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Returns how long a claim waits for the status before it is sent again without it; `None` if it is to be sent
    /// without it at once, because too many statuses are overdue.
    pub(super) fn time_for_status(&self) -> Option<Duration> {
        (self.overdue_statuses.available_permits() > 0).then_some(self.status_timeout)
    }

    /// Counts a status as overdue until the permit is dropped.
    pub(super) fn status_is_overdue(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.overdue_statuses).try_acquire_owned().ok()
    }

    /// Clears the prepared statements of all connections if the statement was stale. Returns whether it was.
    pub(super) fn forget_if_stale(&self, error: &Error) -> bool {
        let stale = self.statements.are_stale(error);
        if stale {
            tracing::info!(error = %Chain(error), "prepared statements are stale; preparing them again");
            self.pool.manager().statement_caches.clear();
        }
        stale
    }

    /// Closes the idle connections that were last used before this time: they may have been lost with another.
    pub(super) fn distrust(&self, since: std::time::Instant) {
        let removed = self.pool.retain(|_, metrics| metrics.recycled.unwrap_or(metrics.created) >= since).removed;
        if !removed.is_empty() {
            tracing::info!(connections = removed.len(), "closed idle connections, because another was lost or silent");
        }
    }

    /// Returns whether all connections that the pool may have are in use.
    pub(super) fn are_exhausted(&self) -> bool {
        let status = self.pool.status();
        status.available == 0 && status.size >= status.max_size
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("timeout", &self.timeout)
            .field("status_timeout", &self.status_timeout)
            .finish_non_exhaustive()
    }
}

/// A quarter of a pool's connections, at least one.
pub(super) fn quarter(pool: &Pool) -> usize {
    (pool.status().max_size / 4).max(1)
}
