//! The beginning of a transaction.

use super::driver::Statement;
use crate::policy::Isolation;

/// The server process and the beginning of the transaction, for a driver that cancels by them.
pub(super) const WHO: Statement<'static> = Statement {
    sql: "SELECT pg_catalog.pg_backend_pid() AS pid, pg_catalog.date_part('epoch', pg_catalog.now()) AS begun",
    parameters: &[],
};

/// Returns the SQL that begins a transaction. NOT DEFERRABLE fails in a transaction that has run a query: one that was left open on
/// the connection.
pub(super) fn begin(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE",
        Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ NOT DEFERRABLE",
        Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE NOT DEFERRABLE",
    }
}
