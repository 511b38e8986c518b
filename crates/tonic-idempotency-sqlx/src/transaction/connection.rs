//! The connection of a call's transaction, as its handler borrows it.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use sqlx::PgConnection;
use tonic_idempotency::store::driver::Guard;

use crate::driver::Sqlx;

/// The connection of a [`Transaction`](crate::Transaction), which is a [`PgConnection`] by `&mut *connection`. Drop it before the
/// handler answers, as a local variable is: the layer cannot commit as long as it lives, and refuses the call.
///
/// `connection.begin()` sets a savepoint, and its transactions nest.
///
/// **If a `begin` fails, or its future is dropped before its end, as by a timeout, answer with an error.** sqlx has then rolled back the
/// call's whole transaction, and sends further statements outside of it. The call is refused with `INTERNAL`, and further statements by
/// `&mut *connection` fail. But the layer does not see a `&mut PgConnection` that was borrowed before, or the transactions of sqlx around
/// the one that did not begin: their statements and commits take effect, without a record. Similarly, a `commit` of an inner transaction
/// whose future is dropped may undo more than that transaction.
///
/// # Cancel safety
///
/// If the future of a statement is dropped before the answer has come, the server may execute the statement all the same; its error, if it
/// has one, comes out of the next statement.
pub struct TransactionConnection {
    guard: Guard<Sqlx>,
}

impl From<Guard<Sqlx>> for TransactionConnection {
    fn from(guard: Guard<Sqlx>) -> Self {
        Self { guard }
    }
}

impl Deref for TransactionConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.guard
    }
}

impl DerefMut for TransactionConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.guard.bar_if_ended();
        &mut self.guard
    }
}

impl AsMut<PgConnection> for TransactionConnection {
    fn as_mut(&mut self) -> &mut PgConnection {
        self
    }
}

impl fmt::Debug for TransactionConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionConnection").finish_non_exhaustive()
    }
}
