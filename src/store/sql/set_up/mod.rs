//! The check of a database before the first call: its catalogue, its tables, and a trial of each statement.

mod probe;
mod problem;
mod verify;

pub(super) use self::{probe::Probe, verify::verify};
pub use self::{problem::SetupProblem, verify::VerifyError};
