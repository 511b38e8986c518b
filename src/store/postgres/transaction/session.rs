//! Shares the connection of a transaction between its handles, until the call ends.

use std::{
    fmt,
    future::ready,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use deadpool_postgres::ClientWrapper;
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{
    runtime::Handle,
    sync::{RwLock, RwLockReadGuard},
    time::{Instant, timeout_at},
};
use tokio_postgres::Error;
use tokio_util::sync::CancellationToken;

use super::TransactionError;
use crate::store::{
    RollBackOutcome, TransactionErrorKind,
    driver::{InTransaction, InUse, Level, Levels, Session, Usage},
    postgres::deadpool::Deadpool,
};

/// A connection in a transaction, which any number of [`Transaction`](super::Transaction)s share until the call ends.
pub struct TransactionSession {
    /// Each statement holds a read lock. [`end`](Self::end) takes the write lock and the connection.
    connection: RwLock<Option<InTransaction<Deadpool>>>,
    /// Wakes waiting statements when the call ends.
    ended: CancellationToken,
    usage: Arc<Usage>,
    levels: Mutex<Levels>,
}

impl TransactionSession {
    /// Returns the connection for one statement of a handle of this level, after the rollback of dropped savepoints.
    pub(super) async fn enter(&self, handle: Level) -> Result<StatementConnection<'_>, TransactionError> {
        let in_use = self.usage.begin();
        let mut entered = match self.connection.try_read() {
            Ok(connection) if connection.is_some() && !self.ended.is_cancelled() => {
                StatementConnection { session: self, connection, level: handle, _in_use: in_use }
            }
            _ => return Err(TransactionErrorKind::Ended.into()),
        };
        if let Some(rolled_back) = entered.change(Levels::roll_back_due) {
            entered.wait(rolled_back).await?;
        }
        entered.level = self.levels().innermost();
        if !self.levels().is_open(handle) {
            return Err(TransactionErrorKind::SavepointEnded.into());
        }
        Ok(entered)
    }

    /// Rolls back although the future of a statement, which is neither polled nor dropped, does not release the connection.
    /// It is closed when that future is dropped.
    async fn interrupt(self: Arc<Self>) {
        if let Some(connection) = &*self.connection.read().await {
            connection.cancel().await;
            // A failure, or a rollback that takes too long, is left to the drop of the connection.
            let _ = timeout_at(connection.deadline(), connection.batch_execute("ROLLBACK")).await;
        }
    }

    /// Counts the connection as in use by a copy, until the result is dropped.
    pub(super) fn copies(&self) -> InUse {
        self.usage.begin()
    }

    /// Cancelled when the call ends.
    pub(super) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Ignores poisoning: no operation leaves the levels half changed.
    pub(super) fn levels(&self) -> MutexGuard<'_, Levels> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session for TransactionSession {
    type Pool = Deadpool;

    fn new(connection: InTransaction<Deadpool>) -> Self {
        Self {
            connection: RwLock::new(Some(connection)),
            ended: CancellationToken::new(),
            usage: Arc::new(Usage::new()),
            levels: Mutex::new(Levels::new()),
        }
    }

    fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The handles have seen the answers themselves.
    fn is_in_conflict(&self, _answer: Option<&(dyn std::error::Error + 'static)>) -> bool {
        self.levels().are_in_conflict()
    }

    /// The future of a statement may have been dropped before its answer came.
    fn has_unanswered(&self) -> bool {
        self.levels().have_unanswered()
    }

    fn roll_back_due(&self) -> Option<String> {
        self.levels().roll_back_due()
    }

    async fn end(&self, deadline: Instant) -> Option<InTransaction<Deadpool>> {
        self.ended.cancel();
        timeout_at(deadline, self.connection.write()).await.ok()?.take()
    }

    async fn roll_back(self: Arc<Self>, deadline: Instant) -> RollBackOutcome {
        match self.end(deadline).await {
            Some(connection) => connection.roll_back(deadline).await,
            None => {
                tokio::spawn(self.interrupt());
                RollBackOutcome::RolledBack
            }
        }
    }

    fn abort(self: &Arc<Self>, deadline: Instant) {
        self.ended.cancel();
        if let Ok(mut connection) = self.connection.try_write() {
            drop(connection.take());
        } else if let Ok(runtime) = Handle::try_current() {
            let session = Arc::clone(self);
            runtime.spawn(session.roll_back(deadline));
        }
    }
}

impl fmt::Debug for TransactionSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionSession").field("ended", &self.ended.is_cancelled()).finish_non_exhaustive()
    }
}

/// The connection while a statement is sent and answered.
pub(super) struct StatementConnection<'a> {
    session: &'a TransactionSession,
    connection: RwLockReadGuard<'a, Option<InTransaction<Deadpool>>>,
    /// The level that the statement belongs to.
    level: Level,
    _in_use: InUse,
}

impl StatementConnection<'_> {
    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// Waits for the answer of a statement, but not longer than the call, and notes it.
    pub(super) async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, TransactionError> {
        let mut watched = PendingStatement { session: self.session, level: self.level, answered: false };
        match self.session.ended.run_until_cancelled(answer).await {
            Some(Ok(answer)) => {
                watched.answered = true;
                Ok(answer)
            }
            Some(Err(error)) => {
                let error = watched.failed(error);
                if error.is_stale()
                    && let Some(connection) = &*self.connection
                {
                    connection.forget_statements();
                }
                Err(error)
            }
            None => Err(TransactionErrorKind::Ended.into()),
        }
    }

    /// Sets a savepoint inside of the innermost level. As [`change`](Self::change).
    pub(super) fn set_savepoint(&self) -> (Level, BoxFuture<'_, Result<(), Error>>) {
        let mut levels = self.session.levels();
        let (level, sql) = levels.set();
        (level, self.send(sql))
    }

    /// Changes the levels, and sends the SQL of the change in the same step, so that the server has the same levels
    /// whatever becomes of the answer, which is returned.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut Levels) -> Option<String>,
    ) -> Option<BoxFuture<'_, Result<(), Error>>> {
        let mut levels = self.session.levels();
        let sql = change(&mut levels)?;
        Some(self.send(sql))
    }

    /// Sends a statement at once: tokio-postgres does so when its future is first polled.
    fn send(&self, sql: String) -> BoxFuture<'_, Result<(), Error>> {
        let mut answer: BoxFuture<'_, _> = Box::pin(async move { self.batch_execute(&sql).await });
        match (&mut answer).now_or_never() {
            Some(at_once) => Box::pin(ready(at_once)),
            None => answer,
        }
    }

    /// Waits for the answer of a [`change`](Self::change), but not longer than the call.
    pub(super) async fn wait(&self, answer: impl Future<Output = Result<(), Error>>) -> Result<(), TransactionError> {
        match self.session.ended.run_until_cancelled(answer).await {
            Some(answer) => answer.map_err(TransactionError::from),
            None => Err(TransactionErrorKind::Ended.into()),
        }
    }
}

impl Deref for StatementConnection<'_> {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.connection.as_ref().expect("it was there on entry, and only a writer takes it out")
    }
}

/// A statement until its answer is noted. If this is dropped without an answer, that is noted.
pub(super) struct PendingStatement<S: Deref<Target = TransactionSession>> {
    pub(super) session: S,
    pub(super) level: Level,
    pub(super) answered: bool,
}

impl<S: Deref<Target = TransactionSession>> PendingStatement<S> {
    /// Notes the error.
    pub(super) fn failed(&mut self, error: Error) -> TransactionError {
        self.answered = true;
        let error = TransactionError::from(error);
        if error.kind() == TransactionErrorKind::Conflict {
            self.session.levels().note_conflict(self.level);
        }
        error
    }
}

impl<S: Deref<Target = TransactionSession>> Drop for PendingStatement<S> {
    fn drop(&mut self) {
        if !self.answered {
            self.session.levels().note_unanswered(self.level);
        }
    }
}
