//! The holds of transactions on their keys, in the store in memory.

use tokio::time::Instant;
use uuid::Uuid;

use crate::store::{Claim, ClaimOutcome};

/// The hold of a transaction on its key.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) token: Uuid,
    /// The time until which the transaction may be idle. The store would end one that is idle for longer.
    pub(super) idle_until: Instant,
    /// The token of the record that the transaction replaces.
    pub(super) seen: Option<Uuid>,
}

impl Hold {
    pub(super) fn is_of_another(&self, claim: &Claim, now: Instant) -> bool {
        self.token != claim.reservation.token && self.idle_until > now
    }

    /// Refuses a claim of the same key, whatever the claim's request is. A hold has no request to compare with; only a record has.
    pub(super) fn refuse(&self, now: Instant) -> ClaimOutcome {
        ClaimOutcome::InFlight { lease_left: self.idle_until.saturating_duration_since(now) }
    }
}
