//! The driver for sea-orm on a real PostgreSQL.

mod conformance;
mod connection;
mod entities;
mod errors;
mod harness;
mod logs;
mod nested;
mod sequences;
mod streams;
