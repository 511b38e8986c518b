//! A client library with its pool: the trait [`Driver`].

use std::error::Error;

use super::{ConnectionPool, Session};

/// A client library for PostgreSQL, with a pool of connections.
pub trait Driver: ConnectionPool {
    /// A transaction on one of its connections, as the handler sees it.
    type Session: Session<Pool = Self>;

    /// Returns whether an error of the client library says that a statement has lost against another transaction: the store
    /// looks for it among the sources of a handler's answer. By default none does.
    fn is_conflict(error: &(dyn Error + 'static)) -> bool {
        let _ = error;
        false
    }

    /// Returns whether errors are told by their English messages: the store's `verify` warns if those of the server are in
    /// another language. By default they are told by their SQLSTATEs.
    fn reads_messages(&self) -> bool {
        false
    }

    /// Takes over the settings of another driver, without its pool. By default there are none.
    fn with_settings_of(self, other: &Self) -> Self {
        let _ = other;
        self
    }
}
