//! The records of the store in memory.

use std::time::Duration;

use protobuf_canonical::RequestHashes;
use tokio::time::Instant;
use uuid::Uuid;

use crate::{
    policy::LeasePolicy,
    status::Resource,
    store::{
        AbandonOutcome, AbandonedQuery, Claim, ClaimOutcome, CompleteOutcome, Completion, ExtendOutcome,
        ReleaseOutcome, Reservation, StoredResponse,
    },
};

/// The record of a key, and what changes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The fencing token of the call that holds or held the key.
    pub token: Uuid,
    /// The path of the procedure.
    pub procedure: String,
    /// The hashes of the request.
    pub request: RequestHashes,
    /// How many claims have held the key.
    pub attempts: u32,
    /// When the key was first reserved.
    pub created: Instant,
    /// When the outcome was recorded.
    pub completed: Option<Instant>,
    /// `None` after a release or an abandonment.
    pub lease_expires: Option<Instant>,
    /// When the record ends.
    pub expires: Instant,
    /// Whether the reservation was abandoned: the call may have taken effect.
    pub unknown: bool,
    /// The outcome, and the resource that the call created.
    pub outcome: Option<(StoredResponse, Option<Resource>)>,
}

impl Record {
    /// Makes the record of a transaction that is committed.
    pub fn completed(claim: &Claim, completion: Completion, now: Instant) -> Self {
        let Completion { response, resource, retention } = completion;
        let outcome = Some((response, resource));
        let completed = Some(now);
        Self { outcome, completed, lease_expires: None, expires: now + retention, ..Self::reserved(claim, now) }
    }

    /// Makes the record of a claim.
    pub fn reserved(claim: &Claim, now: Instant) -> Self {
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

    /// Gives the key to another claim of the same request.
    pub fn take_over(&mut self, claim: &Claim, now: Instant) {
        let Self { attempts, created, unknown, .. } = *self;
        let request = self.request.clone();
        *self = Self { attempts: attempts + 1, created, unknown, request, ..Self::reserved(claim, now) };
    }

    /// Renews the lease, and the lifetime if it would end before the lease. Returns whether there is one: not after a release or an abandonment.
    pub fn renew(&mut self, lease: Duration, now: Instant) -> bool {
        let has_lease = self.lease_expires.is_some();
        if has_lease {
            self.lease_expires = Some(now + lease);
            self.expires = self.expires.max(now + lease);
        }
        has_lease
    }

    /// Decides a claim of the same request while there is no outcome.
    pub fn claimed(&self, claim: &Claim, now: Instant) -> Look {
        let is_own = self.token == claim.reservation.token;
        match claim.on_lease_ended {
            _ if is_own && self.lease_expires.is_some() => Look::Held { attempts: self.attempts },
            // Of a call that has ended: an attempt that arrives late.
            _ if is_own => Look::Refused(ClaimOutcome::OutcomeUnknown),
            _ if self.lease_left(now) > Duration::ZERO => {
                Look::Refused(ClaimOutcome::InFlight { lease_left: self.lease_left(now) })
            }
            LeasePolicy::Reconcile => Look::TakeOver,
            LeasePolicy::Rerun if !self.unknown => Look::TakeOver,
            LeasePolicy::Refuse | LeasePolicy::Rerun => Look::Refused(ClaimOutcome::OutcomeUnknown),
        }
    }

    /// Returns how long the lease still runs.
    pub fn lease_left(&self, now: Instant) -> Duration {
        self.lease_expires.map_or(Duration::ZERO, |expires| expires.saturating_duration_since(now))
    }

    /// Returns whether this reservation holds the key.
    pub fn is_held_by(&self, reservation: &Reservation) -> bool {
        self.token == reservation.token && self.outcome.is_none()
    }

    /// Returns whether a search for abandoned reservations finds it.
    pub fn is_found_by(&self, search: &AbandonedQuery, now: Instant) -> bool {
        self.outcome.is_none()
            && self.lease_left(now).is_zero()
            && self.is_live(now)
            && self.attempts < search.max_attempts
            && search.lookback.is_none_or(|lookback| now.duration_since(self.created) <= lookback)
            && search.procedures.contains(&self.procedure)
    }

    /// Renews the lease of a reservation that holds the key.
    pub fn extend(&mut self, reservation: &Reservation, lease: Duration, now: Instant) -> ExtendOutcome {
        if self.is_held_by(reservation) && self.renew(lease, now) {
            ExtendOutcome::Extended
        } else {
            ExtendOutcome::NotHeld
        }
    }

    /// Records an outcome.
    pub fn complete(&mut self, reservation: &Reservation, completion: &Completion, now: Instant) -> CompleteOutcome {
        if self.token != reservation.token {
            return CompleteOutcome::Fenced;
        }
        if self.outcome.is_some() {
            return CompleteOutcome::AlreadyCompleted;
        }
        self.outcome = Some((completion.response.clone(), completion.resource.clone()));
        self.completed = Some(now);
        self.unknown = false;
        self.expires = now + completion.retention;
        CompleteOutcome::Completed
    }

    /// Ends the lease. The caller then removes the record if it [leaves nothing](Self::leaves_nothing); otherwise the policy of the next claim decides,
    /// as if this call had not taken the key over.
    pub fn release(&mut self, reservation: &Reservation) -> ReleaseOutcome {
        if !self.is_held_by(reservation) {
            return ReleaseOutcome::NotHeld;
        }
        self.lease_expires = None;
        ReleaseOutcome::Released
    }

    /// Returns whether a call that lets go of the key has left no trace.
    pub fn leaves_nothing(&self) -> bool {
        self.attempts == 1 && !self.unknown
    }

    /// Ends the lease of a call that may have taken effect.
    pub fn abandon(&mut self, reservation: &Reservation) -> AbandonOutcome {
        if !self.is_held_by(reservation) {
            return AbandonOutcome::NotHeld;
        }
        self.lease_expires = None;
        self.unknown = true;
        AbandonOutcome::Abandoned
    }

    /// Returns whether it has not expired.
    pub fn is_live(&self, now: Instant) -> bool {
        self.expires > now
    }
}

/// The decision about a claim.
#[derive(Debug)]
#[non_exhaustive]
pub enum Look {
    /// Nothing holds the key.
    Absent,
    /// The claim itself holds the key, and has not given its lease back. `attempts` counts the claims that have held it.
    Held {
        /// How many claims have held it.
        attempts: u32,
    },
    /// The claim does not get the key.
    Refused(ClaimOutcome),
    /// The lease of another claim ended without an outcome.
    TakeOver,
}
