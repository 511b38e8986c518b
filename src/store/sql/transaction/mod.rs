//! Transactional mode: [`OpenTransaction`], which the engine commits or rolls back, and its connection.

mod in_transaction;
mod lookup;
mod open;
mod record;
mod take;

pub use self::in_transaction::InTransaction;
pub(super) use self::open::{OpenTransaction, Transactions};
