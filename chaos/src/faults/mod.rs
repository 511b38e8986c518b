//! Carries out the planned faults. Each is noted in the journal after it has happened.

mod batch;
mod bouncer;
mod burst;
mod director;
mod flood;
mod full_pool;
mod hog;
mod outage;
mod slow_outbox;
mod stage;

pub(crate) use self::{director::Director, stage::Stage};
