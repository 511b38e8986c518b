//! The driver for sqlx on a real PostgreSQL: the conformance suite of stores, and transactional mode.

mod atomicity;
mod bouncer;
mod conformance;
mod connections;
mod disconnects;
mod duplicates;
mod errors;
mod handle;
mod harness;
mod isolation;
mod lost_answers;
mod owned;
mod round_trips;
mod savepoints;
mod session;
