//! Handles of transactions: of a call, for drivers whose statements borrow the connection mutably, and of code without a call.

mod exclusive;
mod exclusive_transaction;
mod owned;

pub use self::{
    exclusive::{Exclusive, Guard},
    exclusive_transaction::{ExclusiveDriver, ExclusiveTransaction},
    owned::Owned,
};
