//! `tonic-idempotency-vault` on a real server, an OpenBao. Each test has a transit engine of its own, or a server.

mod engine;
mod hashes;
mod keys;
mod outages;
mod secrets;
mod server;
mod shredding;
