//! Runs the fault harness, shortly in each mode: the promises hold, and the harness notices broken ones.

/// The features that the harness is built with.
const FEATURES: &str = "";

mod harness;
mod kept;
mod promises;
