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

/// A connection inside a transaction, shared by the handles of a call until the call ends.
///
/// It is taken out by [`Session::end`]. However else the last of its users goes, it is closed, and the server rolls back.
pub(super) struct Session {
    /// Each statement holds it for reading; its end takes the connection out.
    connection: RwLock<Option<InTransaction>>,
    /// Wakes the statements that still wait for their answers when the call ends.
    ended: CancellationToken,
    used: AtomicBool,
    in_conflict: AtomicBool,
    savepoints: AtomicUsize,
    /// Savepoints that were dropped, and are to be rolled back before anything else is done.
    dropped_savepoints: Mutex<Vec<String>>,
}

impl Session {
    /// The transaction that was begun on this connection.
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

    /// The connection, for one statement.
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

    /// Takes the connection away from the handles; `None` where a statement does not let go of it in time.
    pub(super) async fn end(&self, deadline: Instant) -> Option<InTransaction> {
        self.ended.cancel();
        timeout_at(deadline, self.connection.write()).await.ok()?.take()
    }

    /// What rolls the dropped savepoints back, outermost last.
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

    /// A name that no savepoint of the transaction has.
    pub(super) fn new_savepoint(&self) -> String {
        format!("idempotency_{}", self.savepoints.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn was_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn is_in_conflict(&self) -> bool {
        self.in_conflict.load(Ordering::Relaxed)
    }

    /// What was written since is rolled back, the conflict too.
    pub(super) fn forget_conflict(&self) {
        self.in_conflict.store(false, Ordering::Relaxed);
    }
}

/// The SQL that rolls a savepoint back and removes it.
pub(super) fn roll_back_to(name: &str) -> String {
    format!("ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name};")
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("ended", &self.ended.is_cancelled()).finish_non_exhaustive()
    }
}

/// A connection that a transaction may be open on. Dropped, it is closed, and the server rolls back: it goes back to its pool
/// only when it is said that the transaction is over.
pub(super) struct InTransaction {
    connection: Option<Object>,
}

impl InTransaction {
    /// To be made before anything is sent.
    pub(super) fn new(connection: Object) -> Self {
        Self { connection: Some(connection) }
    }

    /// Gives the connection back to its pool.
    pub(super) fn give_back(mut self) {
        drop(self.connection.take());
    }
}

impl Deref for InTransaction {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.connection.as_ref().expect("it is taken out by what consumes this alone")
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
    /// Waits for the answer of a statement, until the call ends.
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
        self.connection.as_ref().expect("it was there on entering, and is taken out by a writer alone")
    }
}
