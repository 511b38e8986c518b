//! Runs the fault harness with the other drivers: the promises hold.

/// The features that the harness is built with.
const FEATURES: &str = "drivers";

mod bouncer;
mod drivers;
mod harness;
mod kept;
