//! Servers from installed binaries, pairs of them, databases on a given server, and PgBouncer: they leave nothing behind.

mod leaks;
mod owner;
mod traces;
