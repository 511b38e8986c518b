//! The beginning of a transaction.

use crate::{policy::Isolation, store::sql::driver::Statement};

/// The server process and the beginning of the transaction, for a driver that cancels by them.
pub(in crate::store::sql) const WHO: Statement<'static> = Statement {
    sql: "SELECT pg_catalog.pg_backend_pid() AS pid, pg_catalog.date_part('epoch', pg_catalog.now()) AS begun",
    parameters: &[],
};

/// A BEGIN, and in the same message a query that fails (25001) in a transaction that was left open on the connection, whether or not that
/// has run a query: both times are those of the message if its BEGIN began the transaction. Only with simple queries; with others they differ.
macro_rules! begin {
    ($level:literal) => {
        concat!(
            "BEGIN ISOLATION LEVEL ",
            $level,
            "; SELECT pg_catalog.set_config('transaction_deferrable', 'off', true) \
             WHERE pg_catalog.now() OPERATOR(pg_catalog.<>) pg_catalog.statement_timestamp()"
        )
    };
}

/// Returns the SQL that begins a transaction, or fails.
pub(in crate::store::sql) fn begin(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => begin!("READ COMMITTED"),
        Isolation::RepeatableRead => begin!("REPEATABLE READ"),
        Isolation::Serializable => begin!("SERIALIZABLE"),
    }
}
