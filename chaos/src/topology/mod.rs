//! The database that the servers use, and what is in front of it.
//!
//! | topology | servers of PostgreSQL | in front of them | its own faults |
//! |---|---|---|---|
//! | `single` | one | nothing | it is killed and started again |
//! | `partitioned` | one, whose table of keys has partitions, or is moved to them (`--moving`) | nothing | the same |
//! | `pgbouncer` | one | a PgBouncer in transaction mode | the same, and those of PgBouncer's connections |
//! | `patroni` | three, one of which Patroni makes the primary | HAProxy, or connection strings with all hosts | failovers |
//! | `redis-cluster` | one, and the records are on a Redis Cluster | nothing | the same as of `single`, and primaries of Redis are lost |
//!
//! Another topology is a variant of [`Topology`](crate::choice::Topology), a file that starts it, and a variant of the engine in `database.rs`.

mod bouncer;
mod database;
mod patroni;
mod redis_cluster;
mod single;
mod until;
mod way;

pub(crate) use self::{bouncer::TERMINATE, database::Database, way::Way};
