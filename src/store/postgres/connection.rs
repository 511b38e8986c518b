//! One statement on a pooled connection: bounded in time, tried again where that is right.

use std::{error::Error as _, fmt, time::Duration};

use deadpool_postgres::{Object, Pool};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Error, Row, error::SqlState};

use super::statement::{Parameters, Statements};
use crate::{
    store::{StoreError, StoreErrorKind},
    telemetry::Chain,
};

/// How often a statement is tried: a server that restarted leaves a pool of connections that are closed, each found out
/// only by using it.
pub(super) const ATTEMPTS: u32 = 4;

/// Nobody waits longer for an answer, and clocks overflow.
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

    /// When an operation that begins now has to have ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// The row that a statement answers, as [`query`](Self::query).
    pub(super) async fn query_one(&self, statement: &str, parameters: Parameters<'_>) -> Result<Row, StoreError> {
        let rows = self.query(statement, parameters).await?;
        match <[Row; 1]>::try_from(rows) {
            Ok([row]) => Ok(row),
            Err(rows) => Err(StoreError::new(StoreErrorKind::Corrupt, format!("{} rows in place of one", rows.len()))),
        }
    }

    /// The rows that a statement answers. It may be run more than once, so it has to be one that may be.
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
                    // Still waiting for its answer: nothing to give to the next user.
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

    /// Whether the same statement may succeed now, or on another connection.
    pub(super) fn worth_another_attempt(&self, error: &Error) -> bool {
        self.forget_if_stale(error) || connection_lost(error) || in_conflict(error)
    }

    /// Has all connections prepare their statements anew, if that is what was wrong; whether it was.
    pub(super) fn forget_if_stale(&self, error: &Error) -> bool {
        let stale = self.statements.are_stale(error);
        if stale {
            tracing::info!(error = %Chain(error), "prepared statements are of no use any more; they are prepared anew");
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

/// The SQLSTATE behind an error.
pub(super) fn sql_state(error: &StoreError) -> Option<&SqlState> {
    error.source()?.downcast_ref::<Error>()?.code()
}

/// Whether the connection is gone, and with it the answer.
pub(super) fn connection_lost(error: &Error) -> bool {
    error.is_closed()
        || error.code().is_some_and(|code| {
            [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(code)
        })
        || error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// Whether a statement lost against another transaction, so that the same may succeed later.
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
