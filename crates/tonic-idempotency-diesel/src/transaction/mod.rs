//! The handler's [`Transaction`].

mod connection;
mod error;
mod handle;

pub use self::{
    connection::TransactionConnection,
    error::TransactionError,
    handle::{OwnedTransaction, Transaction},
};
