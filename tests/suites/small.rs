//! The suites that are small, in one program: each program takes seconds to compile and to link.

mod build_script;
mod circles;
mod client;
mod consumer;
mod first_page;
mod fuzz;
mod generated;
mod house;
mod journal;
mod links;
mod promises;
mod sample;
mod testing;

/// The path by which the tests in `docs/testing.md` import it.
use testing::orders;
