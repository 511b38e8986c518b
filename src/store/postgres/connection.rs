//! Statements on pooled connections: limited in time, and repeated if that is safe.

use std::{error::Error as _, fmt, time::Duration};

use deadpool_postgres::{Object, Pool};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Error, Row, error::SqlState};

use super::statement::{Parameters, Statements};
use crate::{
    store::{StoreError, StoreErrorKind},
    telemetry::Chain,
};

/// The number of attempts for a statement. After a restart of the server, the pool's connections are closed, and each
/// shows this only when it is used.
pub(super) const ATTEMPTS: u32 = 4;

/// The longest timeout. No caller waits longer, and a deadline must not overflow.
const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);

#[derive(Clone)]
pub(super) struct Connections {
    pool: Pool,
    statements: Statements,
    timeout: Duration,
}

impl Connections {
    pub(super) fn new(pool: Pool, timeout: Duration) -> Self {
        Self { pool, statements: Statements::default(), timeout }
    }

    pub(super) fn prepared_statements(self) -> Self {
        Self { statements: Statements::Prepared, ..self }
    }

    pub(super) fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: timeout.min(MAX_TIMEOUT), ..self }
    }

    pub(super) fn statements(&self) -> Statements {
        self.statements
    }

    /// Returns the deadline of an operation that begins now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Returns the only row of a statement. Otherwise as [`query`](Self::query).
    pub(super) async fn query_one(&self, statement: &str, parameters: Parameters<'_>) -> Result<Row, StoreError> {
        let rows = self.query(statement, parameters).await?;
        match <[Row; 1]>::try_from(rows) {
            Ok([row]) => Ok(row),
            Err(rows) => Err(StoreError::new(StoreErrorKind::Corrupt, format!("expected one row, got {}", rows.len()))),
        }
    }

    /// Returns the rows of a statement. The statement has to be idempotent: it may be run more than once.
    pub(super) async fn query(&self, statement: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, StoreError> {
        let deadline = self.deadline();
        let mut attempt = 1;
        loop {
            let connection = self.connection(deadline).await?;
            let rows =
                async { self.statements.ready(&connection, statement, parameters).await?.query(&connection).await };
            let error = match timeout_at(deadline, rows).await {
                Ok(Ok(rows)) => return Ok(rows),
                Ok(Err(error)) => error,
                Err(elapsed) => {
                    // The connection still waits for an answer, so it must not go back to the pool.
                    drop(Object::take(connection));
                    return Err(StoreError::new(StoreErrorKind::Interrupted, elapsed));
                }
            };
            if attempt == ATTEMPTS || !self.worth_another_attempt(&error) {
                return Err(StoreError::new(kind(&error), error));
            }
            attempt += 1;
        }
    }

    /// Returns whether the same statement may succeed now, or on another connection.
    pub(super) fn worth_another_attempt(&self, error: &Error) -> bool {
        self.forget_if_stale(error) || connection_lost(error) || in_conflict(error)
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

    pub(super) async fn connection(&self, deadline: Instant) -> Result<Object, StoreError> {
        match timeout_at(deadline, self.pool.get()).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(StoreError::new(StoreErrorKind::Unreachable, error)),
            Err(elapsed) => Err(StoreError::new(StoreErrorKind::Unreachable, elapsed)),
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Returns the SQLSTATE of an error's source.
pub(super) fn sql_state(error: &StoreError) -> Option<&SqlState> {
    error.source()?.downcast_ref::<Error>()?.code()
}

/// Returns whether the connection was lost, and the answer with it.
pub(super) fn connection_lost(error: &Error) -> bool {
    error.is_closed()
        || error.code().is_some_and(|code| {
            [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(code)
        })
        || error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// Returns whether a statement lost against another transaction: the same statement may succeed later.
pub(super) fn in_conflict(error: &Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}

pub(super) fn kind(error: &Error) -> StoreErrorKind {
    if connection_lost(error) {
        StoreErrorKind::Interrupted
    } else if in_conflict(error) {
        StoreErrorKind::Conflict
    } else {
        StoreErrorKind::Refused
    }
}
