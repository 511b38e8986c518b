//! The cost of the layer in counts that are the same on any machine: allocations, bytes, round trips. The benchmarks
//! measure time.

mod allocations;
mod batches;
mod client;
mod harness;
mod hash;
mod hostile;
mod in_flight;
mod operations;
mod prelude;
mod round_trips;
mod threads;
