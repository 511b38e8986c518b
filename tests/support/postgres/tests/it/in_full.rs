//! Servers that need more than PostgreSQL and PgBouncer, containers and clusters under Patroni, leave nothing behind.

mod container;
#[allow(dead_code, reason = "the tests of installed servers use the rest")]
mod owner;
mod patroni;
mod traces;
