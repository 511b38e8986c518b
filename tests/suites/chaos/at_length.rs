//! Runs the fault harness for longer, and in further settings: the promises hold, and it leaves nothing behind.

/// The features that the harness is built with.
const FEATURES: &str = "";

mod batches;
mod ends;
mod harness;
mod kept;
mod mortal;
mod partitioned;
mod settings;
mod unprotected;
