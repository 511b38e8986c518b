//! The handler's side: its call's [`Transaction`], savepoints in it, and their error.

mod connection;
mod error;
mod handle;
mod savepoint;
#[cfg(feature = "stream")]
mod stream;

pub(crate) use self::error::is_conflict;
#[cfg(feature = "stream")]
pub use self::stream::RowStream;
pub use self::{
    error::TransactionError,
    handle::{OwnedTransaction, Transaction},
    savepoint::Savepoint,
};
