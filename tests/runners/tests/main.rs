//! The files that `tonic-idempotency migrations` writes, run by the runners that they are for, on PostgreSQL.
//!
//! Flyway needs Java, and is not run: its files have refinery's names, and the same texts.

mod checks;
mod diesel_async;
mod files;
mod refinery;
mod runner;
mod sqlx;
mod world;
