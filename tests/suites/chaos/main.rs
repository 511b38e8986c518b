//! Runs the fault harness: the promises hold, the harness notices broken ones, and it leaves nothing behind.

mod ends;
mod harness;
mod promises;
