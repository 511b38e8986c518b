//! The store that keeps records in PostgreSQL, on any driver.

mod attempt_connection;
mod attempt_plan;
mod batch;
mod begin;
mod claim;
mod clock;
mod columns;
mod connection;
mod contact;
pub mod driver;
mod failures;
mod fault;
mod late_claims;
mod look_up;
mod operation;
mod operation_progress;
mod owned;
mod parked_connections;
mod parking;
mod pause;
mod permits;
mod probe;
mod query;
mod reconnection;
mod record_limit;
mod row;
mod setup_problem;
#[expect(clippy::module_inception, reason = "the statements themselves")]
mod sql;
#[cfg(feature = "testing")]
mod statements;
mod store;
mod sweep;
mod transaction;
mod transaction_error;
mod verify;

pub use self::{
    setup_problem::SetupProblem, store::SqlStore, transaction_error::TransactionErrorKind, verify::VerifyError,
};
