//! The connection of a call's transaction, as its handler borrows it.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use diesel_async::AsyncPgConnection;
use tonic_idempotency::store::driver::Guard;

use crate::driver::Diesel;

/// The connection of a [`Transaction`](crate::Transaction), which is an [`AsyncPgConnection`] by `&mut *connection`. Drop it before the
/// handler answers, as a local variable is: the layer cannot commit as long as it lives, and refuses the call.
///
/// `connection.transaction(async |connection| …)` is a savepoint, and nests. If its future is dropped before its end, the call is refused,
/// as diesel does not know what it has left then.
///
/// # Cancel safety
///
/// If the future of a statement is dropped before the answer has come, the server may execute the statement all the same; if it fails, the
/// call is refused.
pub struct TransactionConnection {
    guard: Guard<Diesel>,
}

impl From<Guard<Diesel>> for TransactionConnection {
    fn from(guard: Guard<Diesel>) -> Self {
        Self { guard }
    }
}

impl Deref for TransactionConnection {
    type Target = AsyncPgConnection;

    fn deref(&self) -> &AsyncPgConnection {
        &self.guard
    }
}

impl DerefMut for TransactionConnection {
    fn deref_mut(&mut self) -> &mut AsyncPgConnection {
        &mut self.guard
    }
}

impl AsMut<AsyncPgConnection> for TransactionConnection {
    fn as_mut(&mut self) -> &mut AsyncPgConnection {
        self
    }
}

impl fmt::Debug for TransactionConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionConnection").finish_non_exhaustive()
    }
}
