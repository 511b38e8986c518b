//! The simulated database: as true as PostgreSQL.

mod conformance;
mod differential;
mod locks;
mod trouble;
