//! The driver for tokio-postgres with deadpool, and the transactions of its handlers.

mod connection;
mod deadpool;
mod driver;
mod error;
mod owned_transaction;
mod prepared_statements;
mod process_id;
mod statement;
mod transaction;

pub use self::{
    connection::DeadpoolConnection,
    deadpool::Deadpool,
    driver::PostgresStore,
    owned_transaction::OwnedTransaction,
    prepared_statements::PreparedStatements,
    transaction::{CopyInSink, CopyOutStream, Savepoint, Transaction, TransactionError, TransactionSession},
};
