//! Carries out the planned faults. Each is noted in the journal after it has happened.

mod batch;
mod calls;
mod director;
mod hang;
mod hog;
mod locks;
mod outage;
mod owner;
mod stage;

pub(crate) use self::{director::Director, stage::Stage};
