//! The store that keeps records in PostgreSQL, and the transactions of its handlers.

mod asked;
mod claim;
mod columns;
mod connection;
mod fault;
mod operation;
mod permits;
mod progress;
mod query;
mod row;
mod sql;
mod statement;
mod store;
mod transaction;
mod verify;

pub use self::{
    store::PostgresStore,
    transaction::{CopyInSink, CopyOutStream, Savepoint, Transaction, TransactionError, TransactionErrorKind},
    verify::{SetupProblem, VerifyError},
};
