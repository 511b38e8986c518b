//! Returns the connection of a transaction to its pool, rolled back or committed.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};

use crate::store::{
    RollBackOutcome,
    sql::{
        answers::Fault,
        connections::{Connections, Permit},
        driver::{Connection as _, ConnectionPool},
    },
};

/// A connection on which a transaction may be open. Dropping it rolls back in the background, for at most the store's
/// timeout, and returns the connection to its pool.
pub struct InTransaction<D: ConnectionPool> {
    connection: Option<UncleanConnection<D>>,
    connections: Connections<D>,
}

impl<D: ConnectionPool> InTransaction<D> {
    /// Wraps a connection. Keeps the permit until the connection is given back or closed.
    pub(super) fn new(connection: D::Connection, connections: &Connections<D>, permit: Permit) -> Self {
        let unclean = UncleanConnection {
            connection: Some(connection),
            is_cancelled: AtomicBool::new(false),
            committing_since: None,
            _permit: permit,
        };
        Self { connection: Some(unclean), connections: connections.clone() }
    }

    /// Returns the connection to its pool, after the end of the transaction.
    pub(super) fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            connection.give_back();
        }
    }

    /// Says when COMMIT was sent that is not answered. Until it is, nothing is cancelled or rolled back: a cancelled wait for a synchronous
    /// standby ends with success, and others see what a failover may take back.
    pub(super) fn set_committing(&mut self, since: Option<Instant>) {
        if let Some(connection) = &mut self.connection {
            connection.committing_since = since;
        }
    }

    /// Leaves the connection, on which COMMIT was sent at that time and is not answered, to the server: it ends the COMMIT, or rolls back.
    pub(super) fn leave(mut self, sent: Instant) {
        if let Some(connection) = self.connection.take() {
            connection.leave(&self.connections, sent);
        }
    }

    /// Asks the server to cancel the statement that runs. The connection does not return to its pool: the request may be carried out
    /// after the statement has ended, and would cancel another call's.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may have been asked or not.
    pub async fn cancel(&self) {
        if let Some(connection) = &self.connection {
            connection.cancel().await;
        }
    }

    /// Rolls back and returns the connection to its pool; closes it if the rollback fails or is not done at the deadline.
    pub async fn roll_back(mut self, deadline: Instant) -> RollBackOutcome {
        let Some(connection) = &mut self.connection else { return RollBackOutcome::RolledBack };
        let rolled_back = connection.roll_back(deadline).await;
        if let Some(connection) = self.connection.take() {
            tokio::spawn(connection.end(rolled_back));
        }
        rolled_back.unwrap_or(RollBackOutcome::RolledBack)
    }

    /// Returns the deadline of an operation that begins now, by the store's timeout.
    pub fn deadline(&self) -> Instant {
        self.connections.deadline()
    }
}

impl<D: ConnectionPool> Deref for InTransaction<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        self.connection.as_ref().expect("only `give_back`, `close`, `roll_back` and `drop` take it out, and end this")
    }
}

impl<D: ConnectionPool> DerefMut for InTransaction<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        self.connection.as_mut().expect("only `give_back`, `close`, `roll_back` and `drop` take it out, and end this")
    }
}

impl<D: ConnectionPool> fmt::Debug for InTransaction<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTransaction").finish_non_exhaustive()
    }
}

impl<D: ConnectionPool> Drop for InTransaction<D> {
    fn drop(&mut self) {
        // Outside of a runtime the connection is closed.
        let (Some(mut connection), Ok(runtime)) = (self.connection.take(), Handle::try_current()) else { return };
        if let Some(sent) = connection.committing_since {
            return connection.leave(&self.connections, sent);
        }
        let deadline = self.connections.deadline();
        runtime.spawn(async move {
            let rolled_back = connection.roll_back(deadline).await;
            connection.end(rolled_back).await;
        });
    }
}

/// A connection that must not return to its pool as it is. Dropping it closes it.
struct UncleanConnection<D: ConnectionPool> {
    connection: Option<D::Connection>,
    /// Whether a request to cancel may still arrive.
    is_cancelled: AtomicBool,
    /// When COMMIT was sent that may be under way.
    committing_since: Option<Instant>,
    /// Dropped after the connection.
    _permit: Permit,
}

impl<D: ConnectionPool> UncleanConnection<D> {
    fn give_back(mut self) {
        if !*self.is_cancelled.get_mut() {
            drop(self.connection.take());
        }
    }

    /// [Parks](Connections::park) the connection, and keeps its permit meanwhile. One that is lost is closed.
    fn leave(mut self, connections: &Connections<D>, sent: Instant) {
        let (Ok(runtime), false) = (Handle::try_current(), self.is_closed()) else { return };
        let connections = connections.clone();
        runtime.spawn(async move {
            let Some(connection) = self.connection.take() else { return };
            // A client library may still count the transaction whose COMMIT was given up.
            if let Some(connection) = connections.park(connection, sent).await {
                connection.close();
            }
        });
    }

    async fn cancel(&self) {
        if self.committing_since.is_none() && !self.is_cancelled.swap(true, Ordering::Relaxed) {
            D::Connection::cancel(self).await;
        }
    }

    /// Rolls back, after the statements that were sent before. Returns what was found; `None` if that is not known at the deadline, or if COMMIT
    /// is one of them.
    async fn roll_back(&mut self, deadline: Instant) -> Option<RollBackOutcome> {
        if self.committing_since.is_some() {
            return None;
        }
        match timeout_at(deadline, D::Connection::roll_back(self)).await.ok()? {
            Ok(()) => Some(RollBackOutcome::RolledBack),
            Err(error) => Fault::of(&error).is_lost().then_some(RollBackOutcome::Lost),
        }
    }

    /// Returns the connection to its pool if it was rolled back. Otherwise cancels the statement that runs, which would
    /// hold its locks without a client, and closes the connection.
    async fn end(self, rolled_back: Option<RollBackOutcome>) {
        if rolled_back == Some(RollBackOutcome::RolledBack) {
            self.give_back();
        } else if !self.is_closed() {
            self.cancel().await;
        }
    }
}

impl<D: ConnectionPool> Deref for UncleanConnection<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        self.connection.as_ref().expect("only `give_back` and `drop` take it out, and both end this")
    }
}

impl<D: ConnectionPool> DerefMut for UncleanConnection<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        self.connection.as_mut().expect("only `give_back` and `drop` take it out, and both end this")
    }
}

impl<D: ConnectionPool> Drop for UncleanConnection<D> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
    }
}
