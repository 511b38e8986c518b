//! How the tables are, and their upkeep.

mod doctor;
mod finding;
mod overview;
mod status;
mod sweep;

pub(crate) use self::{
    doctor::{Options as DoctorOptions, doctor},
    status::{Options as StatusOptions, status},
    sweep::{Options as SweepOptions, sweep},
};
