//! Carries out the planned faults. Each is noted in the journal after it has happened.

mod batch;
mod bouncer;
mod burst;
mod director;
mod flood;
mod full_pool;
mod hang;
mod hog;
mod outage;
mod owner;
mod slow_outbox;
mod stage;

pub(crate) use self::{director::Director, stage::Stage};
