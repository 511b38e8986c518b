//! What makes the planned faults happen. Each is noted in the journal once it has happened, and not before.

mod director;
mod full_pool;
mod outage;

pub(crate) use director::{Director, Stage};
