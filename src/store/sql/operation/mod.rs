//! An operation of the store: its attempts, and what follows each that fails.

mod attempt_plan;
mod begun;
mod failures;
#[expect(clippy::module_inception, reason = "the operation itself")]
mod operation;
mod query;

pub(super) use self::{attempt_plan::AttemptPlan, operation::StoreOperation};
