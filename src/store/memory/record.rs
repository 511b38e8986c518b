//! The records of the store in memory.

use std::time::Duration;

use protobuf_canonical::RequestHashes;
use tokio::time::Instant;
use uuid::Uuid;

use crate::{
    policy::LeasePolicy,
    status::Resource,
    store::{Claim, ClaimOutcome, Completion, Reservation, StoredResponse},
};

#[derive(Debug)]
pub(super) struct Record {
    pub(super) token: Uuid,
    pub(super) procedure: String,
    pub(super) request: RequestHashes,
    pub(super) attempts: u32,
    pub(super) created: Instant,
    /// When the outcome was recorded.
    pub(super) completed: Option<Instant>,
    /// `None` after a release or an abandonment.
    pub(super) lease_expires: Option<Instant>,
    pub(super) expires: Instant,
    /// Whether the reservation was abandoned: the call may have taken effect.
    pub(super) unknown: bool,
    pub(super) outcome: Option<(StoredResponse, Option<Resource>)>,
}

impl Record {
    /// Makes the record of a transaction that is committed.
    pub(super) fn completed(claim: &Claim, completion: Completion, now: Instant) -> Self {
        let Completion { response, resource, retention } = completion;
        let outcome = Some((response, resource));
        let completed = Some(now);
        Self { outcome, completed, lease_expires: None, expires: now + retention, ..Self::reserved(claim, now) }
    }

    pub(super) fn reserved(claim: &Claim, now: Instant) -> Self {
        Self {
            token: claim.reservation.token,
            procedure: claim.procedure.clone(),
            request: claim.request.clone(),
            attempts: 1,
            created: now,
            completed: None,
            lease_expires: Some(now + claim.lease),
            expires: now + claim.lease.max(claim.retention),
            unknown: false,
            outcome: None,
        }
    }

    pub(super) fn take_over(&mut self, claim: &Claim, now: Instant) {
        let Self { attempts, created, unknown, .. } = *self;
        let request = self.request.clone();
        *self = Self { attempts: attempts + 1, created, unknown, request, ..Self::reserved(claim, now) };
    }

    /// Renews the lease, and the lifetime if it would end before the lease. Returns whether there is one: not after a release or an abandonment.
    pub(super) fn renew(&mut self, lease: Duration, now: Instant) -> bool {
        let has_lease = self.lease_expires.is_some();
        if has_lease {
            self.lease_expires = Some(now + lease);
            self.expires = self.expires.max(now + lease);
        }
        has_lease
    }

    /// Decides a claim of the same request while there is no outcome.
    pub(super) fn claimed(&self, claim: &Claim, now: Instant) -> Look {
        match claim.on_lease_ended {
            _ if self.token == claim.reservation.token => Look::Held { attempts: self.attempts },
            _ if self.lease_left(now) > Duration::ZERO => {
                Look::Refused(ClaimOutcome::InFlight { lease_left: self.lease_left(now) })
            }
            LeasePolicy::Reconcile => Look::TakeOver,
            LeasePolicy::Rerun if !self.unknown => Look::TakeOver,
            LeasePolicy::Refuse | LeasePolicy::Rerun => Look::Refused(ClaimOutcome::OutcomeUnknown),
        }
    }

    pub(super) fn lease_left(&self, now: Instant) -> Duration {
        self.lease_expires.map_or(Duration::ZERO, |expires| expires.saturating_duration_since(now))
    }

    pub(super) fn is_held_by(&self, reservation: &Reservation) -> bool {
        self.token == reservation.token && self.outcome.is_none()
    }

    pub(super) fn is_live(&self, now: Instant) -> bool {
        self.expires > now
    }
}

/// The decision about a claim.
#[derive(Debug)]
pub(super) enum Look {
    /// Nothing holds the key.
    Absent,
    /// The claim itself holds the key. `attempts` counts the claims that have held it.
    Held {
        attempts: u32,
    },
    Refused(ClaimOutcome),
    /// The lease of another claim ended without an outcome.
    TakeOver,
}
