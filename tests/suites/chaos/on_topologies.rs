//! Runs the fault harness on databases that are more than one server: the promises hold, and what cannot hold is counted.

mod behind_bouncer;
mod bouncer_ends;
mod harness;
mod kept;
mod patroni;
mod redis_cluster;
