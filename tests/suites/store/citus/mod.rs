//! The table distributed by Citus over two workers, set up as `docs/citus.md` says. Skipped, as `citus`, where the extension is not
//! installed.

mod call;
mod cluster;
mod conformance;
mod distributed;
mod duplicates;
mod failover;
mod faults;
mod isolation;
mod limits;
mod moves;
mod operators;
mod page;
mod partitions;
mod pushdown;
mod transactions;
