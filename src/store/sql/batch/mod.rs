//! Batches: one statement for many calls in the common case, and the queues of the calls that wait for it.

mod complete;
mod concurrency;
#[cfg(test)]
pub(super) mod fake;
mod kind;
mod lane;
mod lanes;
mod look;
mod prediction;
mod queue;
mod refusals;
mod reservations;
mod reserve;
mod slots;
#[cfg(test)]
mod tests;
mod write;

pub(super) use self::{
    complete::UnrecordedOutcome,
    kind::Kind,
    lane::{Lane, SendMode},
    lanes::Lanes,
    look::{Found, Look, LookAt},
    write::{Write, WriteRequest},
};
