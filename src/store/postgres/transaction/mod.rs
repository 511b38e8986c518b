//! Transactional mode on PostgreSQL: the handler's transaction, and what the engine does with it.

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
