//! A key that a call holds while its handler runs.

use std::time::Duration;

use tokio::time::Instant;

use super::clock_reading::ClockReading;
use crate::store::{ClaimOutcome, StoreTransaction};

/// A key that a call holds while its handler runs.
#[derive(Debug)]
pub(crate) enum HeldKey {
    Reservation(Lease),
    Transaction(Box<dyn StoreTransaction>),
}

/// The answer to the question for a key.
#[derive(Debug)]
pub(crate) enum Claimed {
    Acquired(HeldKey),
    /// Acquired from a call whose lease ended without an outcome.
    TakenOver(HeldKey),
    Refused {
        outcome: ClaimOutcome,
        /// The time at which the store was asked.
        asked: ClockReading,
    },
}

/// The lease of a reservation, as far as this process can tell. The store's clock decides; this one started to count before
/// the store did, and so ends first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(super) length: Duration,
    pub(super) ends: Instant,
}

impl Lease {
    /// The lease that was asked for at this time.
    pub(super) fn from(asked: Instant, length: Duration) -> Self {
        Self { length, ends: asked + length }
    }
}
