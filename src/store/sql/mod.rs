//! The store that keeps records in PostgreSQL, on any driver.

mod answers;
mod batch;
mod calls;
mod connections;
pub mod driver;
mod handles;
mod operation;
mod set_up;
mod settings;
mod statements;
mod store;
mod transaction;

pub use self::{
    driver::transaction_error::TransactionErrorKind,
    set_up::{SetupProblem, VerifyError},
    store::SqlStore,
};
