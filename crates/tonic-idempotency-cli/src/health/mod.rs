//! How the tables are, and their upkeep.

mod doctor;
mod finding;
mod overview;
mod status;
mod sweep;

#[cfg(feature = "redis")]
pub(crate) use self::{doctor::report, finding::Finding};
pub(crate) use self::{
    doctor::{Options as DoctorOptions, doctor},
    overview::{OVERVIEW, Overview},
    status::{Options as StatusOptions, status},
    sweep::{Options as SweepOptions, sweep},
};
