//! The suites that are small, in one program: each program takes seconds to compile and to link.

mod client;
mod fuzz;
mod generated;
mod house;
mod journal;
mod links;
mod promises;
mod sample;
mod testing;

/// Where the tests that `docs/testing.md` shows have it.
use testing::orders;
