//! The handler's side: its call's [`Transaction`], the connection in it, and their error.

mod connection;
mod error;
mod handle;

pub use self::{
    connection::TransactionConnection,
    error::TransactionError,
    handle::{OwnedTransaction, Transaction},
};
