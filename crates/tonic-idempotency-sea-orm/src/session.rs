//! The session of a call: one connection in a transaction, which the handles share one statement at a time.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    pin::Pin,
    sync::{Arc, Mutex as Lock, MutexGuard, PoisonError},
};

use sea_orm::{DbErr, RuntimeErr};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::{
    runtime::Handle,
    sync::{Mutex, OwnedMutexGuard},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic_idempotency::store::{
    TransactionErrorKind,
    driver::{Driver as _, InTransaction, InUse, Level, Levels, Session, Usage},
};
use tonic_idempotency_sqlx::driver_error;
use tracing::Instrument as _;

use crate::{
    Savepoint, Transaction,
    driver::SeaOrm,
    error::{ended, is_conflict},
};

/// The answer of a statement.
pub(crate) type Answer<'c, T> = Pin<Box<dyn Future<Output = Result<T, sqlx::Error>> + Send + 'c>>;

/// A connection in a transaction, which the handles of the transaction share until the call ends. Each statement has it alone.
pub struct SeaOrmSession {
    connection: Arc<Mutex<Option<Held>>>,
    /// Wakes waiting statements when the call ends.
    ended: CancellationToken,
    usage: Arc<Usage>,
    levels: Lock<Levels>,
}

/// The connection between two statements.
struct Held {
    connection: InTransaction<SeaOrm>,
    /// The level of a statement whose future was dropped before its answer had come.
    given_up: Option<Level>,
}

impl SeaOrmSession {
    /// Takes the connection for one statement of a handle of this level, after the rollback of dropped savepoints.
    pub(crate) async fn enter(self: &Arc<Self>, handle: Level) -> Result<Entered, DbErr> {
        let in_use = self.usage.begin();
        let settled = async {
            let mut held = Arc::clone(&self.connection).lock_owned().await;
            let settled = match &mut *held {
                Some(held) => self.settle(held).await,
                None => return Err(ended(TransactionErrorKind::Ended)),
            };
            settled.map(|()| held).map_err(|error| DbErr::Query(RuntimeErr::SqlxError(error)))
        };
        let held = match self.ended.run_until_cancelled(settled).await {
            Some(held) => held?,
            None => return Err(ended(TransactionErrorKind::Ended)),
        };
        let mut entered = Entered {
            session: Arc::clone(self),
            held,
            level: self.levels().innermost(),
            is_waiting: false,
            _in_use: in_use,
        };
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
    pub(crate) async fn set_savepoint(self: &Arc<Self>, handle: Level) -> Result<Savepoint, DbErr> {
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
    async fn settle(&self, held: &mut Held) -> Result<(), Arc<sqlx::Error>> {
        while let Some(level) = held.given_up {
            let Err(error) = held.connection.ping().await else {
                held.given_up = None;
                break;
            };
            let error = self.failed(level, error);
            let said = driver_error(&error, Arc::clone(&error));
            if said.code().is_none() || said.is_connection_lost() {
                return Err(error);
            }
        }
        Ok(())
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

    /// Ends the session when the handle that has the connection has released it.
    async fn interrupt(self: Arc<Self>) {
        drop(self.connection.lock().await.take());
    }
}

impl Session for SeaOrmSession {
    type Pool = SeaOrm;

    fn new(connection: InTransaction<SeaOrm>) -> Self {
        Self {
            connection: Arc::new(Mutex::new(Some(Held { connection, given_up: None }))),
            ended: CancellationToken::new(),
            usage: Arc::new(Usage::new()),
            levels: Lock::new(Levels::new()),
        }
    }

    fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The handles have seen the errors themselves; but the handler may have another connection.
    fn is_in_conflict(&self, answer: Option<&Status>) -> bool {
        let mut cause = answer.and_then(std::error::Error::source);
        while let Some(error) = cause {
            if is_conflict(error) {
                return true;
            }
            cause = error.source();
        }
        self.levels().are_in_conflict()
    }

    fn has_unanswered(&self) -> bool {
        self.levels().have_unanswered()
    }

    fn roll_back_due(&self) -> Option<String> {
        self.levels().roll_back_due()
    }

    async fn end(&self, deadline: Instant) -> Option<InTransaction<SeaOrm>> {
        self.ended.cancel();
        let mut locked = timeout_at(deadline, self.connection.lock()).await.ok()?;
        // A lost connection is found by COMMIT.
        let _ = timeout_at(deadline, self.settle(locked.as_mut()?)).await.ok()?;
        locked.take().map(|held| held.connection)
    }

    async fn roll_back(self: Arc<Self>, deadline: Instant) {
        self.ended.cancel();
        let held = timeout_at(deadline, self.connection.lock()).await.map(|mut locked| locked.take());
        match held {
            Ok(Some(held)) => held.connection.roll_back(deadline).await,
            Ok(None) => {}
            Err(_) => drop(tokio::spawn(self.interrupt())),
        }
    }

    fn abort(self: &Arc<Self>, deadline: Instant) {
        self.ended.cancel();
        if let Ok(mut held) = self.connection.try_lock() {
            drop(held.take());
        } else if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(Arc::clone(self).roll_back(deadline));
        }
    }
}

impl fmt::Debug for SeaOrmSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeaOrmSession").field("ended", &self.ended.is_cancelled()).finish_non_exhaustive()
    }
}

/// The connection while a statement has it.
pub(crate) struct Entered {
    session: Arc<SeaOrmSession>,
    held: OwnedMutexGuard<Option<Held>>,
    /// The level that the statement belongs to.
    level: Level,
    /// Whether a statement was sent whose answer has not come.
    is_waiting: bool,
    _in_use: InUse,
}

impl Entered {
    /// Returns whether a prepared statement is kept for the next time.
    pub(crate) fn has_statement_cache(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.connection.has_statement_cache())
    }

    /// Runs a statement, but not longer than the call, and notes its error, which becomes one of this kind.
    pub(crate) async fn answer<T>(
        &mut self,
        kind: fn(RuntimeErr) -> DbErr,
        statement: impl for<'c> FnOnce(&'c mut PgConnection) -> Answer<'c, T>,
    ) -> Result<T, DbErr> {
        self.is_waiting = true;
        let call = self.session.ended.clone();
        let answer = call.run_until_cancelled(statement(self)).await;
        let answer = answer.ok_or_else(|| ended(TransactionErrorKind::Ended))?;
        self.is_waiting = false;
        answer.map_err(|error| kind(RuntimeErr::SqlxError(self.session.failed(self.level, error))))
    }

    /// Sets a savepoint inside of the innermost level.
    async fn set_savepoint(mut self) -> Result<Savepoint, DbErr> {
        let (level, sql) = self.session.levels().set();
        let set = self.send(sql).await;
        if set.is_err() {
            self.session.levels().not_set(level);
        }
        set.map(|()| Savepoint::new(Transaction::new(Arc::clone(&self.session), level)))
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

impl Deref for Entered {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.held.as_ref().expect("it was there on entry, and only who has the lock takes it out").connection
    }
}

impl DerefMut for Entered {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.held.as_mut().expect("it was there on entry, and only who has the lock takes it out").connection
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(held) = self.held.as_mut().filter(|_| self.is_waiting) {
            held.given_up = Some(self.level);
        }
    }
}

/// Runs a change of the levels to its end, whatever becomes of the caller: the server has the same levels then.
async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, DbErr>> + Send + 'static,
) -> Result<T, DbErr> {
    tokio::spawn(change.in_current_span()).await.unwrap_or_else(|_| Err(ended(TransactionErrorKind::Ended)))
}
