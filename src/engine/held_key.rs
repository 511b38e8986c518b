//! A key that a call holds while its handler runs.

use std::{error::Error, time::Duration};

use tokio::time::Instant;

use crate::{
    engine::time::clock_reading::ClockReading,
    rejection::Rejection,
    store::{ClaimOutcome, StoreTransaction},
};

/// A key that a call holds while its handler runs.
#[derive(Debug)]
pub(crate) enum HeldKey {
    Reservation(Lease),
    Transaction(Box<dyn StoreTransaction>),
}

impl HeldKey {
    /// Returns whether its lease has ended before it was renewed. A transaction holds its key until it ends.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Reservation(lease) if lease.ends <= Instant::now())
    }

    /// Returns whether its transaction has lost. `answer` is the handler's error.
    pub(super) fn is_in_conflict(&self, answer: Option<&(dyn Error + 'static)>) -> bool {
        matches!(self, Self::Transaction(transaction) if transaction.is_in_conflict(answer))
    }
}

/// The answer to a claim.
#[derive(Debug)]
pub(crate) enum ClaimAnswer {
    Acquired(HeldKey),
    /// Given back: it was free only when the record was looked for with other hashes. It can be claimed with a new token.
    GivenBack,
    /// Acquired from a call whose lease ended without an outcome.
    TakenOver(HeldKey),
    NotAcquired {
        outcome: ClaimOutcome,
        /// The time at which the store was asked.
        asked: ClockReading,
    },
    /// Not known: the keys that tell are away.
    Unknown(Rejection),
}

/// The lease of a reservation, as far as this process can tell. The store's clock decides; this process starts to count before
/// the store does, so that the lease ends here first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(super) length: Duration,
    pub(super) ends: Instant,
    /// Whether the store has said that this call holds the reservation. `false` if the answer to the claim was lost: the
    /// claim may stand all the same, and then the call's token holds it.
    pub(super) confirmed: bool,
}

impl Lease {
    /// The lease that was asked for at this time.
    pub(super) fn from(asked: Instant, length: Duration) -> Self {
        Self { length, ends: asked + length, confirmed: true }
    }

    /// The lease of a claim whose answer was lost: it has to be renewed at once, because it is not known when it began.
    pub(super) fn unconfirmed(length: Duration) -> Self {
        Self { length, ends: Instant::now(), confirmed: false }
    }

    /// The time at which it is to be renewed: when a third of it has passed, so that two more attempts fit in.
    pub(super) fn renewal(&self) -> Instant {
        if self.confirmed { self.ends - (self.length - self.length / 3) } else { self.ends }
    }
}
