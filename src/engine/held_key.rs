//! What a call holds its key by.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    engine::clock_reading::Moment,
    store::{ClaimOutcome, OpenTransaction},
};

/// What a call holds its key by while its handler runs.
#[derive(Debug)]
pub(crate) enum Hold {
    Reservation(Lease),
    Transaction(Box<dyn OpenTransaction>),
}

/// What came of asking for a key.
#[derive(Debug)]
pub(crate) enum Claimed {
    Acquired(Hold),
    /// Acquired, and a call that held it before ended its lease without an outcome.
    TakenOver(Hold),
    Refused {
        outcome: ClaimOutcome,
        /// When the store was asked.
        asked: Moment,
    },
}

/// How long a reservation is believed, as far as this process can tell: the store's clock decides, and this one started to
/// count before the store did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) length: Duration,
    pub(crate) ends: Instant,
}

impl Lease {
    /// A lease that was asked for at this time.
    pub(crate) fn from(asked: Instant, length: Duration) -> Self {
        Self { length, ends: asked + length }
    }
}
