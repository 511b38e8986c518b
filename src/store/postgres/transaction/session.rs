//! The connection of a handler's transaction, and access to it.

use std::{
    fmt, mem,
    ops::Deref,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use deadpool_postgres::{ClientWrapper, Object};
use tokio::{
    sync::{RwLock, RwLockReadGuard},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{TransactionError, TransactionErrorKind};

/// A connection in a transaction. The handles of a call share it until the call ends.
///
/// [`Session::end`] takes the connection out. If the last handle is dropped without that, the connection is closed, and
/// the server rolls back.
pub(super) struct Session {
    /// Each statement holds a read lock. [`end`](Self::end) takes the write lock and the connection.
    connection: RwLock<Option<InTransaction>>,
    /// Wakes waiting statements when the call ends.
    ended: CancellationToken,
    used: AtomicBool,
    in_conflict: AtomicBool,
    savepoints: AtomicUsize,
    /// The names of dropped savepoints. They are rolled back before the next statement.
    dropped_savepoints: Mutex<Vec<String>>,
}

impl Session {
    /// Makes a session from a connection on which a transaction was begun.
    pub(super) fn new(connection: InTransaction) -> Self {
        Self {
            connection: RwLock::new(Some(connection)),
            ended: CancellationToken::new(),
            used: AtomicBool::new(false),
            in_conflict: AtomicBool::new(false),
            savepoints: AtomicUsize::new(0),
            dropped_savepoints: Mutex::default(),
        }
    }

    /// Returns the connection for one statement, after the rollback of dropped savepoints.
    pub(super) async fn enter(&self) -> Result<Entered<'_>, TransactionError> {
        self.used.store(true, Ordering::Relaxed);
        let connection = self.connection.read().await;
        if self.ended.is_cancelled() || connection.is_none() {
            return Err(TransactionErrorKind::Ended.into());
        }
        let entered = Entered { session: self, connection };
        if let Some(roll_back) = self.pending_roll_back() {
            entered.answer(entered.batch_execute(&roll_back)).await?;
        }
        Ok(entered)
    }

    /// Ends the session, and takes the connection away from the handles; `None` if a statement does not release it in
    /// time.
    pub(super) async fn end(&self, deadline: Instant) -> Option<InTransaction> {
        self.ended.cancel();
        timeout_at(deadline, self.connection.write()).await.ok()?.take()
    }

    /// Returns the SQL that rolls back the dropped savepoints, the outermost last; `None` if there are none.
    pub(super) fn pending_roll_back(&self) -> Option<String> {
        let names = mem::take(&mut *self.dropped_savepoints.lock().unwrap_or_else(PoisonError::into_inner));
        if names.is_empty() {
            return None;
        }
        self.in_conflict.store(false, Ordering::Relaxed);
        Some(names.iter().map(|name| roll_back_to(name)).collect())
    }

    pub(super) fn drop_savepoint(&self, name: String) {
        self.dropped_savepoints.lock().unwrap_or_else(PoisonError::into_inner).push(name);
    }

    /// Returns a new name for a savepoint.
    pub(super) fn new_savepoint(&self) -> String {
        format!("idempotency_{}", self.savepoints.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn was_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn is_in_conflict(&self) -> bool {
        self.in_conflict.load(Ordering::Relaxed)
    }

    /// Forgets a conflict after its statement was rolled back.
    pub(super) fn forget_conflict(&self) {
        self.in_conflict.store(false, Ordering::Relaxed);
    }
}

/// Returns the SQL that rolls back to a savepoint and removes it.
pub(super) fn roll_back_to(name: &str) -> String {
    format!("ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name};")
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("ended", &self.ended.is_cancelled()).finish_non_exhaustive()
    }
}

/// A connection on which a transaction may be open. Dropping it closes the connection, and the server rolls back. Only
/// [`give_back`](Self::give_back) returns it to its pool.
pub(super) struct InTransaction {
    connection: Option<Object>,
}

impl InTransaction {
    /// Wraps a connection, before the first statement of the transaction is sent.
    pub(super) fn new(connection: Object) -> Self {
        Self { connection: Some(connection) }
    }

    /// Returns the connection to its pool, after the end of the transaction.
    pub(super) fn give_back(mut self) {
        drop(self.connection.take());
    }
}

impl Deref for InTransaction {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.connection.as_ref().expect("only `give_back` and `drop` take it out, and both consume this")
    }
}

impl Drop for InTransaction {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Object::take(connection));
        }
    }
}

/// The connection while a statement is sent and answered.
pub(super) struct Entered<'a> {
    session: &'a Session,
    connection: RwLockReadGuard<'a, Option<InTransaction>>,
}

impl Entered<'_> {
    /// Waits for the answer of a statement, but not longer than the call.
    pub(super) async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, TransactionError> {
        let answer = match self.session.ended.run_until_cancelled(answer).await {
            Some(answer) => answer.map_err(TransactionError::from),
            None => Err(TransactionErrorKind::Ended.into()),
        };
        if matches!(&answer, Err(error) if error.kind() == TransactionErrorKind::Conflict) {
            self.session.in_conflict.store(true, Ordering::Relaxed);
        }
        answer
    }
}

impl Deref for Entered<'_> {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.connection.as_ref().expect("it was there on entry, and only a writer takes it out")
    }
}
