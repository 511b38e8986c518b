//! A connection that was asked something.

use std::{fmt, ops::Deref};

use deadpool_postgres::{ClientWrapper, Object, PoolError};
use tokio::{
    runtime::Handle,
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};
use tokio_postgres::Error;

use super::{fault::Fault, progress::Progress};

/// What brings a connection back into its first state, once its statements are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reset {
    /// The statements leave nothing.
    Nothing,
    RollBack,
}

/// A connection on which an attempt has sent something.
///
/// Dropped, it is given back to its pool once the answer is there, and closed if none is there at the operation's
/// deadline.
pub(super) struct Asked<'a> {
    connection: Option<Object>,
    progress: &'a Progress,
    reset: Reset,
}

impl<'a> Asked<'a> {
    pub(super) fn new(connection: Object, reset: Reset, progress: &'a Progress) -> Self {
        Self { connection: Some(connection), progress, reset }
    }

    /// Takes the connection out.
    pub(super) fn into_connection(mut self) -> Object {
        self.connection.take().expect("only this and `drop` take it out, and both consume it")
    }

    /// Handles the error of the last statement: closes the connection if it must not be used again.
    pub(super) fn failed(self, error: Error) -> Failure {
        if Fault::of(&error).spoils_connection() {
            close(self.into_connection());
        } else if self.reset == Reset::Nothing {
            drop(self.into_connection());
        }
        Failure::Statement(error)
    }

    /// Sends nothing, and notes if there is an answer: the server can be asked.
    pub(super) async fn look_whether_it_answers(&self) {
        if self.batch_execute("").await.is_ok() {
            self.progress.server_answers();
        }
    }
}

impl Deref for Asked<'_> {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.connection.as_ref().expect("only `into_connection` and `drop` take it out, and both consume this")
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        match Handle::try_current() {
            Ok(runtime) if !self.progress.closes_connections() => {
                let (deadline, overdue) = (self.progress.deadline(), self.progress.take_overdue_status());
                runtime.spawn(give_back(connection, self.reset, deadline, overdue));
            }
            _ => close(connection),
        }
    }
}

/// The failure of an attempt.
#[derive(Debug)]
pub(super) enum Failure {
    /// There was no connection for it.
    NoConnection(PoolError),
    /// Its statement failed.
    Statement(Error),
}

impl fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("reset", &self.reset).finish_non_exhaustive()
    }
}

/// Waits until everything that was sent is answered, and gives the connection back to its pool; closes it if that takes
/// too long. Answers come in the order of the statements.
async fn give_back(connection: Object, reset: Reset, deadline: Instant, _overdue: Option<OwnedSemaphorePermit>) {
    let last = match reset {
        Reset::Nothing => "",
        Reset::RollBack => "ROLLBACK",
    };
    if !matches!(timeout_at(deadline, connection.batch_execute(last)).await, Ok(Ok(()))) {
        close(connection);
    }
}

fn close(connection: Object) {
    drop(Object::take(connection));
}
