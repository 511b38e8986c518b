//! The handler's side: its call's [`Transaction`], and the connection in it.

mod connection;
mod handle;

pub use self::{
    connection::TransactionConnection,
    handle::{OwnedTransaction, Transaction},
};
