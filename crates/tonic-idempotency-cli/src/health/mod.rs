//! How the tables are, and their upkeep.

mod status;
mod sweep;

pub(crate) use self::{
    status::{Options as StatusOptions, status},
    sweep::{Options as SweepOptions, sweep},
};
