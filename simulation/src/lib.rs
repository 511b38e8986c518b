//! The product's own code under deterministic simulation: the real layer, engine, store and client, in one thread, on a clock, a network and
//! a database that are simulated and driven by one seed.

pub mod database;
pub mod world;
