//! Gives the connection of a transaction to one handle at a time.

use std::{
    error::Error,
    fmt,
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::store::{
    RollBackOutcome, TransactionErrorKind,
    sql::{
        driver::{Connection as _, Driver, InUse, Session, Usage},
        transaction::InTransaction,
    },
};

/// A transaction of which one handle at a time has the connection: for drivers whose statements borrow it mutably.
///
/// The handler has an [`ExclusiveTransaction`](super::ExclusiveTransaction), or a handle of the driver's own.
pub struct Exclusive<D: Driver> {
    connection: Arc<Mutex<Option<InTransaction<D>>>>,
    /// Wakes the handles that wait for the connection when the call ends.
    ended: CancellationToken,
    usage: Arc<Usage>,
    in_conflict: AtomicBool,
}

impl<D: Driver> Exclusive<D> {
    /// Waits until no other handle has the connection, and takes it until the guard is dropped.
    ///
    /// # Errors
    ///
    /// [`TransactionErrorKind::Ended`] if the call has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing has happened.
    pub async fn lock(&self) -> Result<Guard<D>, TransactionErrorKind> {
        let in_use = self.usage.begin();
        let locked = self.ended.run_until_cancelled(Arc::clone(&self.connection).lock_owned()).await;
        match locked {
            Some(connection) if connection.is_some() => {
                let mut guard = Guard { connection, _in_use: in_use };
                guard.hand_out();
                Ok(guard)
            }
            _ => Err(TransactionErrorKind::Ended),
        }
    }

    /// Notes that a statement has lost against another transaction, if this error says so ([`Driver::is_conflict`]): the
    /// call is rolled back, and the client is told to retry, whatever the handler answers.
    pub fn note(&self, error: &(dyn Error + 'static)) {
        if D::is_conflict(error) {
            self.in_conflict.store(true, Ordering::Relaxed);
        }
    }

    /// Waits for this work, but not longer than the call; `None` if that has ended.
    ///
    /// # Cancel safety
    ///
    /// As the work.
    pub async fn while_open<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.ended.run_until_cancelled(work).await
    }

    fn connection_is_in_conflict(&self) -> bool {
        let connection = self.connection.try_lock();
        connection.is_ok_and(|mut connection| connection.as_mut().is_some_and(|connection| connection.is_in_conflict()))
    }

    /// Ends the session when the handle that has the connection has dropped it.
    async fn interrupt(self: Arc<Self>) {
        drop(self.connection.lock().await.take());
    }
}

impl<D: Driver> Session for Exclusive<D> {
    type Pool = D;

    fn new(connection: InTransaction<D>) -> Self {
        Self {
            connection: Arc::new(Mutex::new(Some(connection))),
            ended: CancellationToken::new(),
            usage: Arc::new(Usage::new()),
            in_conflict: AtomicBool::new(false),
        }
    }

    fn usage(&self) -> &Usage {
        &self.usage
    }

    fn is_in_conflict(&self, answer: Option<&(dyn Error + 'static)>) -> bool {
        let mut cause = answer;
        while let Some(error) = cause {
            if D::is_conflict(error) {
                return true;
            }
            cause = error.source();
        }
        // A handler that succeeds may have rolled back to a savepoint: then the record and COMMIT decide.
        self.in_conflict.load(Ordering::Relaxed) || answer.is_some() && self.connection_is_in_conflict()
    }

    fn has_unanswered(&self) -> bool {
        false
    }

    async fn end(&self, deadline: Instant) -> Option<InTransaction<D>> {
        self.ended.cancel();
        timeout_at(deadline, self.connection.lock()).await.ok()?.take()
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
        if let Ok(mut connection) = self.connection.try_lock() {
            drop(connection.take());
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(Arc::clone(self).roll_back(deadline));
        }
    }
}

impl<D: Driver> fmt::Debug for Exclusive<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").field("ended", &self.ended.is_cancelled()).finish_non_exhaustive()
    }
}

/// The connection of an [`Exclusive`] transaction, until this is dropped. A handler that keeps it beyond its answer has its
/// call refused: the transaction cannot be committed.
pub struct Guard<D: Driver> {
    connection: OwnedMutexGuard<Option<InTransaction<D>>>,
    _in_use: InUse,
}

impl<D: Driver> Deref for Guard<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        self.connection.as_ref().expect("it was there on entry, and only who has the lock takes it out")
    }
}

impl<D: Driver> DerefMut for Guard<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        self.connection.as_mut().expect("it was there on entry, and only who has the lock takes it out")
    }
}

impl<D: Driver> fmt::Debug for Guard<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}
