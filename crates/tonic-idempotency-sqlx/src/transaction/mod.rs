//! The handler's side: its call's [`Transaction`], the connection in it, and their error.

mod connection;
mod error;
mod handle;

pub(crate) use self::error::is_conflict;
pub use self::{
    connection::TransactionConnection,
    error::TransactionError,
    handle::{OwnedTransaction, Transaction},
};
