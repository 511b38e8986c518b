//! The handler's side: its call's [`Transaction`], and savepoints in it.

mod connection;
mod handle;
mod savepoint;
#[cfg(feature = "stream")]
mod stream;

#[cfg(feature = "stream")]
pub use self::stream::RowStream;
pub use self::{
    handle::{OwnedTransaction, Transaction},
    savepoint::Savepoint,
};
