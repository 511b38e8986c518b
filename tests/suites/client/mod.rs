//! The client's layer around generated clients, in front of servers that are not ours and of ours.

mod attempts;
mod completion;
mod example;
pub(crate) mod foreign;
mod interoperability;
mod keys;
pub(crate) mod line;
mod lost_answers;
mod pass_through;
mod prelude;
mod protection;
mod standstill;
mod telemetry;
mod unshown;

use super::sample::process;
