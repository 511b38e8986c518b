//! Runs the fault harness, shortly in each mode: the promises hold, and the harness notices broken ones.

mod harness;
mod kept;
mod promises;
