//! Runs the fault harness: the promises hold, the harness notices broken ones, and it leaves nothing behind.

/// The features that the harness is built with.
const FEATURES: &str = "";

mod batches;
mod ends;
mod harness;
mod kept;
mod mortal;
mod partitioned;
mod promises;
