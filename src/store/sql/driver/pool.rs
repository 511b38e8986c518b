//! The connections of a client library: the trait [`ConnectionPool`].

use std::{fmt, time::Instant};

use super::{AcquireError, Connection, DriverError};

/// A pool of connections to PostgreSQL. Clones share it.
pub trait ConnectionPool: Clone + fmt::Debug + Send + Sync + 'static {
    /// A connection of the pool. Dropping it gives it back as it is.
    type Connection: Connection;

    /// Takes a connection out of the pool, or makes one.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] if none is free in time, or none can be made.
    fn acquire(&self) -> impl Future<Output = Result<Self::Connection, AcquireError>> + Send;

    /// Returns the greatest number of connections that the pool may have.
    fn max_connections(&self) -> usize;

    /// Returns whether the pool has an idle connection, so that [`acquire`](Self::acquire) need not make one.
    fn has_idle(&self) -> bool;

    /// Returns whether all connections that the pool may have are in use.
    fn is_exhausted(&self) -> bool;

    /// Asks the server for a text, on a connection that does not belong to the pool, in a transaction that these statements begin. It is
    /// rolled back, and the connection closed.
    ///
    /// # Errors
    ///
    /// The connection cannot be made, or the statement has failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the connection is closed.
    fn ask_apart(&self, begin: &str, sql: &str) -> impl Future<Output = Result<String, DriverError>> + Send;

    /// Closes the idle connections that were last used before this time: they may have been lost with another. Returns how
    /// many. By default none: for a pool that tests a connection before it hands it out.
    fn distrust(&self, since: Instant) -> usize {
        let _ = since;
        0
    }

    /// Forgets all prepared statements if this error says that one is stale: its function was replaced, or the server has
    /// forgotten it. Returns whether it was; then the store tries again. By default it never is: for a driver that prepares
    /// nothing, or prepares again by itself.
    fn forget_if_stale(&self, error: &DriverError) -> bool {
        let _ = error;
        false
    }
}
