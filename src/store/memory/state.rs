//! The state of the store in memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    hold::Hold,
    record::{Look, Record},
};
use crate::{
    caller::OwnerId,
    key::KeyId,
    status::{OutboxStatus, ResourceId},
    store::{Claim, ClaimOutcome, Replay, Reservation},
};

/// The state that the clones of a store share.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<State>>);

impl Shared {
    /// Locks the state. Ignores that a lock is poisoned: no operation leaves the state half changed.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) records: HashMap<Id, Record>,
    /// The keys that transactions hold.
    pub(super) holds: HashMap<Id, Hold>,
    pub(super) statuses: HashMap<ResourceId, Option<OutboxStatus>>,
    /// How far the clock is ahead of tokio's.
    pub(super) ahead: Duration,
}

impl State {
    pub(super) fn now(&self) -> Instant {
        Instant::now() + self.ahead
    }

    /// Decides a claim. Changes nothing.
    pub(super) fn look(&self, claim: &Claim, now: Instant) -> Look {
        let id = id(&claim.reservation);
        let record = self.records.get(&id).filter(|record| record.is_live(now));
        let hold = self.holds.get(&id).filter(|hold| hold.is_of_another(claim, now));
        match (record, hold) {
            (Some(record), None) => self.look_at(record, claim, now),
            (Some(record), _) if record.outcome.is_some() => self.look_at(record, claim, now),
            (_, Some(hold)) => Look::Refused(hold.refuse(now)),
            (None, None) => Look::Absent,
        }
    }

    fn look_at(&self, record: &Record, claim: &Claim, now: Instant) -> Look {
        if let Some(mismatch) = claim.mismatch(&record.procedure, Some(&record.request)) {
            return Look::Refused(ClaimOutcome::Mismatch(mismatch));
        }
        if let Some((response, resource)) = &record.outcome {
            let resource = resource.as_ref().map(|resource| resource.id.clone());
            let status =
                resource.as_ref().and_then(|id| self.statuses.get(id).copied().unwrap_or(Some(OutboxStatus::Pending)));
            let expires_in = record.expires.saturating_duration_since(now);
            let replay = Replay { response: response.clone(), resource, status: Ok(status), expires_in };
            return Look::Refused(ClaimOutcome::Replay(replay));
        }
        record.claimed(claim, now)
    }

    /// Ends the hold of a claim, if it still is the claim's.
    pub(super) fn release(&mut self, claim: &Claim) -> Option<Hold> {
        let id = id(&claim.reservation);
        let is_held = self.holds.get(&id).is_some_and(|hold| hold.token == claim.reservation.token);
        if is_held { self.holds.remove(&id) } else { None }
    }

    /// Returns whether the record that the transaction has seen is still as it was, if there was one.
    pub(super) fn may_be_recorded(&self, claim: &Claim, hold: &Hold, now: Instant) -> bool {
        match self.look(claim, now) {
            Look::Absent => true,
            Look::TakeOver => self.records.get(&id(&claim.reservation)).map(|record| record.token) == hold.seen,
            Look::Held { .. } | Look::Refused(_) => false,
        }
    }
}

type Id = (OwnerId, KeyId);

pub(super) fn id(reservation: &Reservation) -> Id {
    (reservation.owner, reservation.key)
}
