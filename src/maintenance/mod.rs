//! Background tasks: the [`Sweeper`] deletes expired records, and [`Recovery`] reconciles calls whose lease ended
//! without an outcome.

mod background;
mod recovery;
mod sweeper;
mod unknown_keys;

pub use self::{
    recovery::{Recovered, Recovery, RecoveryHandle},
    sweeper::{Sweeper, SweeperHandle},
};
