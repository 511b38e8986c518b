//! The session of a call: one connection in a transaction, which the handles share one statement at a time.

use std::{
    error::Error,
    fmt,
    ops::{Deref, DerefMut},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sea_orm::{DbErr, RuntimeErr};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::time::{Instant, timeout_at};
use tonic_idempotency::store::{
    RollBackOutcome, TransactionErrorKind,
    driver::{Driver as _, Exclusive, Guard, InTransaction, Level, Levels, Session, Usage},
};
use tonic_idempotency_sqlx::{SqlxConnection, driver_error};
use tracing::Instrument as _;

use crate::{error::ended, pool::SeaOrm, transaction_error::is_conflict};

/// The answer of a statement.
pub(crate) type StatementFuture<'c, T> = Pin<Box<dyn Future<Output = Result<T, sqlx::Error>> + Send + 'c>>;

/// A connection in a transaction, which the handles of the transaction share until the call ends. One statement has it at a time.
pub struct SeaOrmSession {
    exclusive: Arc<Exclusive<SeaOrm>>,
    levels: Mutex<Levels>,
    /// The level of a statement whose future was dropped before its answer had come.
    given_up: Mutex<Option<Level>>,
}

impl SeaOrmSession {
    /// Takes the connection for one statement of a handle of this level, after the rollback of dropped savepoints.
    pub(crate) async fn enter(self: &Arc<Self>, handle: Level) -> Result<StatementGuard, DbErr> {
        let mut guard = self.exclusive.lock().await.map_err(ended)?;
        let settled = self.exclusive.while_open(self.settle(&mut guard)).await;
        let settled = settled.ok_or_else(|| ended(TransactionErrorKind::Ended))?;
        settled.map_err(|error| DbErr::Query(RuntimeErr::SqlxError(error)))?;
        let level = self.levels().innermost();
        let mut entered = StatementGuard { session: Arc::clone(self), guard, level, is_waiting: false };
        let due = self.levels().roll_back_due();
        if let Some(due) = due {
            entered = to_its_end(entered.changed(due)).await?;
            entered.level = self.levels().innermost();
        }
        if !self.levels().is_open(handle) {
            return Err(ended(TransactionErrorKind::SavepointEnded));
        }
        Ok(entered)
    }

    /// Sets a savepoint for a handle of this level.
    pub(crate) async fn set_savepoint(self: &Arc<Self>, handle: Level) -> Result<SavepointLevel, DbErr> {
        to_its_end(self.enter(handle).await?.set_savepoint()).await
    }

    /// Releases a savepoint: its writes become part of the level around it.
    pub(crate) async fn release(self: &Arc<Self>, savepoint: Level) -> Result<(), DbErr> {
        to_its_end(self.enter(savepoint).await?.release(savepoint)).await
    }

    /// Rolls back a savepoint.
    pub(crate) async fn roll_back_to(self: &Arc<Self>, savepoint: Level) -> Result<(), DbErr> {
        to_its_end(self.enter(savepoint).await?.roll_back(savepoint)).await
    }

    /// Waits for the answer of a statement that was given up. sqlx would return its error from the next statement, and not send that.
    async fn settle(&self, connection: &mut SqlxConnection) -> Result<(), Arc<sqlx::Error>> {
        while let Some(level) = self.given_up() {
            let Err(error) = connection.ping().await else {
                self.give_up(None);
                break;
            };
            let error = self.failed(level, error);
            let said = driver_error(&error, Arc::clone(&error));
            if said.code().is_none() || said.is_connection_lost() || said.leaves_doubt() {
                return Err(error);
            }
        }
        Ok(())
    }

    fn given_up(&self) -> Option<Level> {
        *self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_up(&self, level: Option<Level>) {
        *self.given_up.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }

    /// Notes the error of a statement.
    fn failed(&self, level: Level, error: sqlx::Error) -> Arc<sqlx::Error> {
        if SeaOrm::is_conflict(&error) {
            self.levels().note_conflict(level);
        }
        Arc::new(error)
    }

    /// Notes a conflict, if this error is a serialization failure or a deadlock.
    pub(crate) fn note(&self, error: &DbErr) {
        if is_conflict(error) {
            let mut levels = self.levels();
            let level = levels.innermost();
            levels.note_conflict(level);
        }
    }

    /// Ignores poisoning: no operation leaves the levels half changed.
    pub(crate) fn levels(&self) -> MutexGuard<'_, Levels> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session for SeaOrmSession {
    type Pool = SeaOrm;

    fn new(connection: InTransaction<SeaOrm>) -> Self {
        Self {
            exclusive: Arc::new(Exclusive::new(connection)),
            levels: Mutex::new(Levels::new()),
            given_up: Mutex::default(),
        }
    }

    fn usage(&self) -> &Usage {
        self.exclusive.usage()
    }

    /// The handles have seen the errors themselves; but the handler may have another connection.
    fn is_in_conflict(&self, answer: Option<&(dyn Error + 'static)>) -> bool {
        self.exclusive.is_in_conflict(answer) || self.levels().are_in_conflict()
    }

    fn has_unanswered(&self) -> bool {
        self.levels().have_unanswered()
    }

    fn roll_back_due(&self) -> Option<String> {
        self.levels().roll_back_due()
    }

    async fn end(&self, deadline: Instant) -> Option<InTransaction<SeaOrm>> {
        let mut connection = self.exclusive.end(deadline).await?;
        // A lost connection is found by COMMIT.
        let _ = timeout_at(deadline, self.settle(&mut connection)).await.ok()?;
        Some(connection)
    }

    async fn roll_back(self: Arc<Self>, deadline: Instant) -> RollBackOutcome {
        Arc::clone(&self.exclusive).roll_back(deadline).await
    }

    fn abort(self: &Arc<Self>, deadline: Instant) {
        self.exclusive.abort(deadline);
    }
}

impl fmt::Debug for SeaOrmSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeaOrmSession").field("connection", &self.exclusive).finish_non_exhaustive()
    }
}

/// The connection while a statement has it.
pub(crate) struct StatementGuard {
    session: Arc<SeaOrmSession>,
    guard: Guard<SeaOrm>,
    /// The level that the statement belongs to.
    level: Level,
    /// Whether a statement was sent whose answer has not come.
    is_waiting: bool,
}

impl StatementGuard {
    /// Returns whether a prepared statement is kept for the next time.
    pub(crate) fn has_statement_cache(&self) -> bool {
        self.guard.has_statement_cache()
    }

    /// Runs a statement, but not longer than the call, and notes its error, which becomes one of this kind.
    pub(crate) async fn answer<T>(
        &mut self,
        kind: fn(RuntimeErr) -> DbErr,
        statement: impl for<'c> FnOnce(&'c mut PgConnection) -> StatementFuture<'c, T>,
    ) -> Result<T, DbErr> {
        self.is_waiting = true;
        let call = Arc::clone(&self.session.exclusive);
        let answer = call.while_open(statement(self)).await;
        let answer = answer.ok_or_else(|| ended(TransactionErrorKind::Ended))?;
        self.is_waiting = false;
        answer.map_err(|error| kind(RuntimeErr::SqlxError(self.session.failed(self.level, error))))
    }

    /// Sets a savepoint inside of the innermost level.
    async fn set_savepoint(mut self) -> Result<SavepointLevel, DbErr> {
        let (level, sql) = self.session.levels().set();
        let set = self.send(sql).await;
        if set.is_err() {
            self.session.levels().not_set(level);
        }
        set.map(|()| SavepointLevel { session: Arc::clone(&self.session), level })
    }

    /// Releases a savepoint, and all inside of it.
    async fn release(mut self, level: Level) -> Result<(), DbErr> {
        let release = self.session.levels().release(level);
        let released = self.send(release.ok_or_else(|| ended(TransactionErrorKind::SavepointEnded))?).await;
        if released.is_err() {
            self.session.levels().not_released(level);
        }
        released
    }

    /// Rolls back a savepoint, and all inside of it.
    async fn roll_back(mut self, level: Level) -> Result<(), DbErr> {
        let roll_back = {
            let mut levels = self.session.levels();
            levels.roll_back(level);
            levels.roll_back_due()
        };
        self.send(roll_back.ok_or_else(|| ended(TransactionErrorKind::SavepointEnded))?).await
    }

    /// Sends the SQL of a change of the levels.
    async fn changed(mut self, sql: String) -> Result<Self, DbErr> {
        self.send(sql).await?;
        Ok(self)
    }

    async fn send(&mut self, sql: String) -> Result<(), DbErr> {
        let sent = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **self).await;
        sent.map(drop).map_err(|error| DbErr::Query(RuntimeErr::SqlxError(self.session.failed(self.level, error))))
    }
}

impl Deref for StatementGuard {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.guard
    }
}

impl DerefMut for StatementGuard {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.guard
    }
}

impl Drop for StatementGuard {
    fn drop(&mut self) {
        if self.is_waiting {
            self.session.give_up(Some(self.level));
        }
    }
}

/// The level of a savepoint that was set. If it is dropped, and the savepoint has not ended, that is rolled back before the next
/// statement.
pub(crate) struct SavepointLevel {
    pub(crate) session: Arc<SeaOrmSession>,
    pub(crate) level: Level,
}

impl Drop for SavepointLevel {
    fn drop(&mut self) {
        self.session.levels().roll_back(self.level);
    }
}

/// Runs a change of the levels to its end, whatever becomes of the caller: the server has the same levels then.
async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, DbErr>> + Send + 'static,
) -> Result<T, DbErr> {
    tokio::spawn(change.in_current_span()).await.unwrap_or_else(|_| Err(ended(TransactionErrorKind::Ended)))
}
