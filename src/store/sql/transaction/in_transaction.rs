//! [`InTransaction`].

use std::{ops::Deref, time::Duration};

use deadpool_postgres::{ClientWrapper, Object};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout, timeout_at},
};
use tokio_postgres::NoTls;

use crate::store::postgres::{connection::Connections, permits::Permit};

/// The longest time that the cancellation of a statement may take.
const CANCELLATION: Duration = Duration::from_secs(5);

/// A connection on which a transaction may be open. Dropping it rolls back in the background, for at most the store's
/// timeout, and returns the connection to its pool. Only [`give_back`](Self::give_back) returns it as it is.
pub(super) struct InTransaction {
    connection: Option<Unclean>,
    connections: Connections,
}

impl InTransaction {
    /// Wraps a connection. Keeps the permit until the connection is given back or closed.
    pub(super) fn new(connection: Object, connections: &Connections, permit: Permit) -> Self {
        let unclean = Unclean { connection: Some(connection), _permit: permit };
        Self { connection: Some(unclean), connections: connections.clone() }
    }

    /// Returns the connection to its pool, after the end of the transaction.
    pub(super) fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            connection.give_back();
        }
    }

    /// Closes the connection, on which an answer is missing. The server rolls back, or ends the COMMIT that it has got.
    pub(super) fn close(mut self) {
        drop(self.connection.take());
    }

    /// Rolls back and returns the connection to its pool; closes it if the rollback fails or takes too long.
    pub(super) async fn roll_back(mut self, deadline: Instant) {
        let Some(connection) = &self.connection else { return };
        let rolled_back = connection.roll_back(deadline).await;
        if let Some(connection) = self.connection.take() {
            tokio::spawn(connection.end(rolled_back));
        }
    }

    /// Cancels the statement that runs, and rolls back, while another holder of this connection waits for an answer.
    pub(super) async fn interrupt(&self) {
        if let Some(connection) = &self.connection {
            connection.cancel().await;
            connection.roll_back(self.connections.deadline()).await;
        }
    }
}

impl Deref for InTransaction {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.connection.as_ref().expect("only `give_back`, `close`, `roll_back` and `drop` take it out, and end this")
    }
}

impl Drop for InTransaction {
    fn drop(&mut self) {
        // Outside of a runtime the connection is closed.
        if let (Some(connection), Ok(runtime)) = (self.connection.take(), Handle::try_current()) {
            let deadline = self.connections.deadline();
            runtime.spawn(async move {
                let rolled_back = connection.roll_back(deadline).await;
                connection.end(rolled_back).await;
            });
        }
    }
}

/// A connection that must not return to its pool as it is. Dropping it closes it.
struct Unclean {
    connection: Option<Object>,
    /// Dropped after the connection.
    _permit: Permit,
}

impl Unclean {
    fn give_back(mut self) {
        drop(self.connection.take());
    }

    /// Rolls back, after the statements that were sent before. Returns whether that is done at the deadline.
    async fn roll_back(&self, deadline: Instant) -> bool {
        matches!(timeout_at(deadline, self.batch_execute("ROLLBACK")).await, Ok(Ok(())))
    }

    /// Returns the connection to its pool if it was rolled back. Otherwise cancels the statement that runs, which would
    /// hold its locks without a client, and closes the connection.
    async fn end(self, rolled_back: bool) {
        if rolled_back {
            self.give_back();
        } else if !self.is_closed() {
            self.cancel().await;
        }
    }

    /// Asks the server to cancel the statement that runs. A request to cancel is not encrypted, as it was in libpq before
    /// version 17; with `sslmode=require` it is not sent.
    async fn cancel(&self) {
        let token = self.cancel_token();
        if let Ok(Err(error)) = timeout(CANCELLATION, token.cancel_query(NoTls)).await {
            tracing::debug!(%error, "a statement cannot be cancelled");
        }
    }
}

impl Deref for Unclean {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.connection.as_ref().expect("only `give_back` and `drop` take it out, and both end this")
    }
}

impl Drop for Unclean {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Object::take(connection));
        }
    }
}
