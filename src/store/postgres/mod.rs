//! Records in PostgreSQL.

mod columns;
mod connection;
mod row;
mod statement;
mod store;
mod transaction;

pub use self::{
    store::PostgresStore,
    transaction::{Savepoint, Transaction, TransactionError, TransactionErrorKind},
};
