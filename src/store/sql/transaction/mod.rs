//! Transactional mode: the handler's [`Transaction`], and [`Open`], which the engine commits or rolls back.

mod copy;
mod error;
mod handle;
mod in_transaction;
mod levels;
mod lookup;
mod open;
mod savepoint;
mod session;

pub(super) use self::open::{Open, Transactions};
pub use self::{
    copy::{CopyInSink, CopyOutStream},
    error::{TransactionError, TransactionErrorKind},
    handle::Transaction,
    savepoint::Savepoint,
};
