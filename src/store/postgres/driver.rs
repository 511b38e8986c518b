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
    /// Behind a pooler such as PgBouncer in transaction mode, clients share the server's connections: unless the pooler tracks
    /// prepared statements, a client may run one that another client has prepared under the same name. So each connection is
    /// probed before its first statement. It is direct if the server's process is still that of the login; its pooler tracks if
    /// it renames a prepared statement. After the first connection for which neither holds, the pool prepares no more statements
    /// and cancels none. One log line says so.
    ///
    /// A statement is prepared again if it is stale: its function was replaced, or the server has forgotten it. (Behind a
    /// pooler, a forgotten statement ends all preparation.) If a transactional handler executes `DEALLOCATE ALL`, the statement
    /// that writes the record is lost, and the call is rolled back.
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
