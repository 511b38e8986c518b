//! Servers that need more than PostgreSQL and PgBouncer: containers, clusters under Patroni, and upgrades.

mod container;
#[allow(dead_code, reason = "the tests of installed servers use the rest")]
mod owner;
mod patroni;
#[allow(dead_code, reason = "the tests of installed servers use the rest")]
mod traces;
mod upgrade;
