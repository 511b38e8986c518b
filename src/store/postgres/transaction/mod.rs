//! Transactional mode: the handler's [`Transaction`], and [`Open`], which the engine commits or rolls back.

mod error;
mod handle;
mod lookup;
mod open;
mod savepoint;
mod session;

pub(super) use self::open::Open;
pub use self::{
    error::{TransactionError, TransactionErrorKind},
    handle::Transaction,
    savepoint::Savepoint,
};
