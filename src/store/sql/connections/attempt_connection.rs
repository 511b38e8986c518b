//! Returns connections to their pools only once the statements that were sent on them are answered.

use std::{
    fmt, mem,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};

use super::connection::Connections;
use crate::store::{
    StoreError,
    sql::{
        answers::{Fault, OperationProgress, SentClaim},
        driver::{AcquireError, Connection as _, ConnectionPool, DriverError},
    },
};

/// The reset that returns a connection to its initial state, once its statements are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::sql) enum Reset {
    /// The statements leave nothing.
    Nothing,
    RollBack,
    /// COMMIT was sent, and is not answered. The connection is closed once it is: a client library may still count the transaction.
    Commit,
}

/// A connection on which an attempt has sent something.
///
/// Dropped, it is given back to its pool once the answer is there. If none is there at the operation's deadline, one that only reads is
/// cancelled and closed, and one that may write is [parked](super::parking).
pub(in crate::store::sql) struct AttemptConnection<'a, D: ConnectionPool> {
    connection: Option<D::Connection>,
    connections: &'a Connections<D>,
    progress: &'a Arc<OperationProgress>,
    reset: Reset,
    /// Whether it was asked for a reservation, and has not answered.
    claims: bool,
}

impl<'a, D: ConnectionPool> AttemptConnection<'a, D> {
    pub(in crate::store::sql) fn new(
        connection: D::Connection,
        reset: Reset,
        connections: &'a Connections<D>,
        progress: &'a Arc<OperationProgress>,
    ) -> Self {
        Self { connection: Some(connection), connections, progress, reset, claims: false }
    }

    /// Takes the connection out.
    pub(in crate::store::sql) fn into_connection(mut self) -> D::Connection {
        self.connection.take().expect("only this and `drop` take it out, and both consume it")
    }

    /// Notes that it is about to be asked for a reservation, which has no effect after this time.
    pub(in crate::store::sql) fn claims_until(&mut self, until: Instant) {
        self.progress.claims_until(until);
        self.claims = true;
    }

    fn take_claim(&mut self) -> Option<SentClaim> {
        mem::take(&mut self.claims).then(|| SentClaim::of(self.progress))
    }

    /// Commits. From here on nothing is rolled back or cancelled: a cancelled wait for a synchronous standby ends with success.
    pub(in crate::store::sql) async fn commit(&mut self) -> Result<(), DriverError> {
        self.reset = Reset::Commit;
        D::Connection::commit(self, None, None).await?;
        self.reset = Reset::Nothing;
        Ok(())
    }

    /// Gives the connection back after an answer, or as [`failed`](Self::failed).
    pub(in crate::store::sql) async fn answered<T>(mut self, answer: Result<T, DriverError>) -> Result<T, Failure> {
        let is_lost = |error: &DriverError| Fault::of(error).is_lost();
        if let Some(claim) = self.take_claim() {
            match answer.as_ref().is_err_and(is_lost) {
                true => self.connections.outlive(vec![claim], self.progress.last_sent()),
                false => claim.answered(),
            }
        }
        match answer {
            Ok(answer) => {
                drop(self.into_connection());
                Ok(answer)
            }
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Handles the error of the last statement: closes the connection if it must not be used again.
    pub(in crate::store::sql) async fn failed(mut self, error: DriverError) -> Failure {
        let connections = self.connections;
        let fault = connections.fault_of(&error, &mut self).await;
        if fault.spoils_connection() {
            self.into_connection().close();
        } else if self.reset == Reset::Nothing {
            drop(self.into_connection());
        }
        Failure::Statement { fault, error }
    }

    /// Sends an empty statement. An answer shows that the server can be asked.
    pub(in crate::store::sql) async fn look_whether_it_answers(&mut self) {
        if self.execute("").await.is_ok() {
            self.progress.server_answers();
        }
    }
}

impl<D: ConnectionPool> Deref for AttemptConnection<'_, D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        self.connection.as_ref().expect("only `into_connection` and `drop` take it out, and both consume this")
    }
}

impl<D: ConnectionPool> DerefMut for AttemptConnection<'_, D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        self.connection.as_mut().expect("only `into_connection` and `drop` take it out, and both consume this")
    }
}

impl<D: ConnectionPool> Drop for AttemptConnection<'_, D> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let claim = self.take_claim();
        let Ok(runtime) = Handle::try_current() else { return connection.close() };
        let gives_up_at_once = self.progress.closes_connections();
        if gives_up_at_once && self.reset == Reset::RollBack {
            return connection.close();
        }
        let given_up = GivenUp {
            connections: self.connections.clone(),
            since: self.progress.last_sent(),
            deadline: if gives_up_at_once { Instant::now() } else { self.progress.deadline() },
            reset: self.reset,
            claim,
        };
        let overdue = self.progress.take_overdue_status();
        runtime.spawn(async move {
            given_up.give_back(connection).await;
            drop(overdue);
        });
    }
}

/// The failure of an attempt.
#[derive(Debug)]
pub(in crate::store::sql) enum Failure {
    /// It came too late, and has done nothing.
    Late,
    /// There was no connection for it.
    NoConnection(AcquireError),
    /// Its statement failed.
    Statement { fault: Fault, error: DriverError },
    /// Its answer cannot be read, and would be the same again.
    Corrupt(StoreError),
    /// The batch that it was sent in failed; `fault` is `None` if the batch was not sent.
    Together { fault: Option<Fault> },
}

impl Failure {
    /// The failure to read an answer.
    pub(in crate::store::sql) fn of_answer(error: DriverError) -> Self {
        Self::Statement { fault: Fault::of(&error), error }
    }
}

impl<D: ConnectionPool> fmt::Debug for AttemptConnection<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("reset", &self.reset).finish_non_exhaustive()
    }
}

/// The state of an attempt that was given up before its connection had answered.
struct GivenUp<D: ConnectionPool> {
    connections: Connections<D>,
    since: Instant,
    deadline: Instant,
    reset: Reset,
    /// The claim for which the connection was asked, if it has not answered.
    claim: Option<SentClaim>,
}

impl<D: ConnectionPool> GivenUp<D> {
    /// Waits until everything that was sent is answered, and gives the connection back to its pool. Answers come in the order of the
    /// statements.
    async fn give_back(self, mut connection: D::Connection) {
        let reset_done = async {
            match self.reset {
                Reset::Nothing | Reset::Commit => connection.execute("").await,
                Reset::RollBack => connection.roll_back().await,
            }
        };
        let answered = match (timeout_at(self.deadline, reset_done).await, self.reset) {
            (Ok(Ok(())), _) => Some(connection),
            (Err(_), Reset::Nothing | Reset::Commit) => self.connections.park(connection, self.since).await,
            (failed, _) => {
                // The statement that runs commits nothing, so it may be cancelled.
                if failed.is_err() {
                    connection.cancel().await;
                }
                connection.close();
                None
            }
        };
        let claims = self.claim.into_iter();
        let Some(connection) = answered else { return self.connections.outlive(claims.collect(), self.since) };
        claims.for_each(SentClaim::answered);
        if self.reset == Reset::Commit {
            connection.close();
        }
    }
}
