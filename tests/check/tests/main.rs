//! `tonic-idempotency check`, run against a server that breaks one promise at a time.

mod command;
mod faults;
mod input;
mod page;
mod server;
mod terminal;
mod tls;
