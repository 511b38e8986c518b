//! The driver for tokio-postgres, the store on it, and its setting for prepared statements.

use super::{deadpool::Deadpool, prepared_statements::PreparedStatements, transaction::TransactionSession};
use crate::store::{SqlStore, driver::Driver};

/// The store on tokio-postgres, with a pool of deadpool.
pub type PostgresStore = SqlStore<Deadpool>;

impl SqlStore<Deadpool> {
    /// Sets whether the store's statements are prepared, once for each connection, so that the server need not parse and plan them
    /// each time. Defaults to [`PreparedStatements::WhereKept`]: the store finds out by itself. `results/benchmarks.md` shows how much this
    /// saves, and `docs/database.md` what a new connection costs.
    ///
    /// A pooler such as PgBouncer in transaction mode, unless it tracks prepared statements, lets clients find those of other clients
    /// under the names of their own. So each connection is looked at before its first statement: it is the server's own if the server's
    /// process is that of the login, and a pooler tracks if it gives a prepared statement another name. Once a connection does
    /// neither, the pool's statements are parsed, with one log line, and none is cancelled.
    ///
    /// A stale statement is prepared again: its function was replaced, or the server has forgotten it. (Behind a pooler, one that was
    /// forgotten ends all preparation.) If a transactional handler executes `DEALLOCATE ALL`, the statement that writes the record is
    /// lost, and the call is rolled back.
    pub fn prepared_statements(self, setting: PreparedStatements) -> Self {
        self.with_driver(|driver| driver.with_prepared_statements(setting))
    }
}

impl Driver for Deadpool {
    type Session = TransactionSession;

    fn with_settings_of(self, other: &Self) -> Self {
        self.with_prepared_statements(other.prepared_statements())
    }
}
