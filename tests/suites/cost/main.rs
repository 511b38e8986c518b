//! What the layer costs, in counts that are the same on any machine: allocations, bytes, round trips. Times are for the
//! benchmarks.

mod allocations;
mod harness;
mod hash;
mod in_flight;
mod round_trips;
