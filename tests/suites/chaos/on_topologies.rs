//! Runs the fault harness on databases that are more than one server: the promises hold, and what cannot hold is counted.

/// The features that the harness is built with.
const FEATURES: &str = "";

mod behind_bouncer;
mod bouncer;
mod bouncer_ends;
mod harness;
mod kept;
mod patroni;
mod redis_cluster;
