//! The driver for tokio-postgres with deadpool, and the transactions of its handlers.

mod connection;
mod deadpool;
mod driver;
mod error;
mod prepared_statements;
mod process_id;
mod statement;
mod transaction;

pub use self::{
    connection::DeadpoolConnection,
    deadpool::Deadpool,
    driver::PostgresStore,
    prepared_statements::PreparedStatements,
    transaction::{
        CopyInSink, CopyOutStream, OwnedTransaction, Savepoint, Transaction, TransactionError, TransactionSession,
    },
};
