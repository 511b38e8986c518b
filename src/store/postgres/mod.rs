//! The store that keeps records in PostgreSQL, and the transactions of its handlers.

mod columns;
mod connection;
mod row;
mod statement;
mod store;
mod transaction;

pub use self::{
    store::PostgresStore,
    transaction::{CopyInSink, CopyOutStream, Savepoint, Transaction, TransactionError, TransactionErrorKind},
};
