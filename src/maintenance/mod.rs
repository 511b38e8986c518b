//! Work in the background: the [`Sweeper`] deletes expired records, [`Recovery`] finds calls that ended without an outcome.

mod background;
mod recovery;
mod sweeper;

pub use self::{
    recovery::{Recovered, Recovery, RecoveryHandle},
    sweeper::{Sweeper, SweeperHandle},
};
