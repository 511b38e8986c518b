//! The transaction of a handler on tokio-postgres: [`Transaction`], its savepoints, and its copies.

mod copy;
mod error;
mod handle;
mod savepoint;
mod session;

pub use self::{
    copy::{CopyInSink, CopyOutStream},
    error::TransactionError,
    handle::Transaction,
    savepoint::Savepoint,
    session::TransactionSession,
};
