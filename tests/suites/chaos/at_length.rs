//! Runs the fault harness for longer, and in further settings: the promises hold, and it leaves nothing behind.

mod ends;
mod harness;
mod kept;
mod partitioned;
mod settings;
mod unprotected;
