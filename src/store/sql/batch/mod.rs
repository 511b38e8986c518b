//! Batches: statements that do for many calls what a single statement does for one, and the calls that wait for them.

mod complete;
#[cfg(test)]
pub(super) mod fake;
mod kind;
mod lane;
mod lanes;
mod look;
mod pace;
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
    complete::Recording,
    kind::Kind,
    lane::{Lane, Turn},
    lanes::Lanes,
    look::{Look, LookAt},
    write::{Write, Writing},
};
