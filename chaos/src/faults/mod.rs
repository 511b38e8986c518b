//! Carries out the planned faults. Each is noted in the journal after it has happened.

mod calls;
mod director;
mod outage;
mod stage;

pub(crate) use self::{director::Director, stage::Stage};
