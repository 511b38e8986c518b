//! The simulated database: as true as PostgreSQL.

mod at_once;
mod conformance;
mod locks;
mod trouble;
