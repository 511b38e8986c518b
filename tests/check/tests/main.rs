//! `tonic-idempotency check`, run against a server that breaks one promise at a time.

mod command;
mod faults;
mod input;
mod server;
