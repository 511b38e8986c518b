//! [`MemoryStore`].

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use uuid::Uuid;

use super::{
    AbandonOutcome, AbandonedKey, AbandonedQuery, CallSession, Claim, ClaimOutcome, CompleteOutcome, Completion,
    ExtendOutcome, ReleaseOutcome, Replay, Reservation, Store, StoreError, StoredResponse,
};
use crate::{
    caller::OwnerId,
    key::KeyId,
    policy::LeasePolicy,
    status::{OutboxStatus, Resource, ResourceId},
};
use protobuf_canonical::RequestHashes;

/// A store that keeps records in this process, for tests and first steps. They are lost when the process ends, and
/// other processes cannot see them. Clones share their records.
///
/// It has no transactions, and its operations never fail. Its clock is that of tokio, so that tests can pause and
/// advance it.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

impl MemoryStore {
    /// Makes a store without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the status that replays report for a resource; `None` for no status. Defaults to [`OutboxStatus::Pending`] for
    /// each resource that a call created.
    pub fn set_status(&self, resource: impl Into<ResourceId>, status: impl Into<Option<OutboxStatus>>) {
        self.lock().statuses.insert(resource.into(), status.into());
    }

    /// Returns the number of records. Expired records count until they are swept or replaced.
    pub fn len(&self) -> usize {
        self.lock().records.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Locks the state. Ignores that a lock is poisoned: no operation leaves the state half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        let now = Instant::now();
        let mut state = self.lock();
        let State { records, statuses } = &mut *state;
        let mut entry = match records.entry((claim.reservation.owner, claim.reservation.key)) {
            Entry::Vacant(entry) => {
                entry.insert(Record::reserved(claim, now));
                return Ok(ClaimOutcome::Acquired);
            }
            Entry::Occupied(entry) => entry,
        };
        if !entry.get().is_live(now) {
            entry.insert(Record::reserved(claim, now));
            return Ok(ClaimOutcome::Acquired);
        }
        if let Some(mismatch) = claim.mismatch(&entry.get().procedure, Some(&entry.get().request)) {
            return Ok(ClaimOutcome::Mismatch(mismatch));
        }
        let record = entry.get_mut();
        if let Some((response, resource)) = &record.outcome {
            let resource = resource.as_ref().map(|resource| resource.id.clone());
            let status =
                resource.as_ref().and_then(|id| statuses.get(id).copied().unwrap_or(Some(OutboxStatus::Pending)));
            let expires_in = record.expires.saturating_duration_since(now);
            let replay = Replay { response: response.clone(), resource, status: Ok(status), expires_in };
            return Ok(ClaimOutcome::Replay(replay));
        }
        Ok(match record.claimed(claim, now) {
            Claimed::Held if record.attempts == 1 => ClaimOutcome::Acquired,
            Claimed::Held => ClaimOutcome::TakenOver,
            Claimed::InFlight { lease_left } => ClaimOutcome::InFlight { lease_left },
            Claimed::Refused => ClaimOutcome::OutcomeUnknown,
            Claimed::TakeOver => {
                record.take_over(claim, now);
                ClaimOutcome::TakenOver
            }
        })
    }

    async fn extend(&self, reservation: &Reservation, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        let now = Instant::now();
        let mut state = self.lock();
        let record = state.records.get_mut(&(reservation.owner, reservation.key));
        let Some(record) = record.filter(|record| record.is_held_by(reservation) && record.lease_expires.is_some())
        else {
            return Ok(ExtendOutcome::NotHeld);
        };
        record.lease_expires = Some(now + lease);
        record.expires = record.expires.max(now + lease);
        Ok(ExtendOutcome::Extended)
    }

    async fn complete(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        let now = Instant::now();
        let mut state = self.lock();
        let record = state.records.get_mut(&(reservation.owner, reservation.key));
        let Some(record) = record.filter(|record| record.token == reservation.token) else {
            return Ok(CompleteOutcome::Fenced);
        };
        if record.outcome.is_some() {
            return Ok(CompleteOutcome::AlreadyCompleted);
        }
        record.outcome = Some((completion.response.clone(), completion.resource.clone()));
        record.unknown = false;
        record.expires = now + completion.retention;
        Ok(CompleteOutcome::Completed)
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        let mut state = self.lock();
        match state.records.entry((reservation.owner, reservation.key)) {
            Entry::Occupied(mut entry) if entry.get().is_held_by(reservation) => {
                if entry.get().attempts == 1 && !entry.get().unknown {
                    entry.remove();
                } else {
                    // The policy of the next claim decides, as if this call had not taken the key over.
                    entry.get_mut().lease_expires = None;
                }
                Ok(ReleaseOutcome::Released)
            }
            _ => Ok(ReleaseOutcome::NotHeld),
        }
    }

    async fn abandon(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        let mut state = self.lock();
        let record = state.records.get_mut(&(reservation.owner, reservation.key));
        let Some(record) = record.filter(|record| record.is_held_by(reservation)) else {
            return Ok(AbandonOutcome::NotHeld);
        };
        record.lease_expires = None;
        record.unknown = true;
        Ok(AbandonOutcome::Abandoned)
    }

    async fn abandoned(&self, search: &AbandonedQuery) -> Result<Vec<AbandonedKey>, StoreError> {
        let now = Instant::now();
        let state = self.lock();
        let mut found: Vec<_> = state
            .records
            .iter()
            .filter(|(_, record)| {
                record.outcome.is_none()
                    && record.lease_left(now).is_zero()
                    && record.is_live(now)
                    && record.attempts < search.max_attempts
                    && search.lookback.is_none_or(|lookback| now.duration_since(record.created) <= lookback)
                    && search.procedures.contains(&record.procedure)
            })
            .collect();
        found.sort_by_key(|(_, record)| record.created);
        let found = found.into_iter().take(search.batch as usize).map(|(&(owner, key), record)| AbandonedKey {
            owner,
            key,
            procedure: record.procedure.clone(),
            request: record.request.clone(),
        });
        Ok(found.collect())
    }

    async fn sweep(&self, batch: u32) -> Result<u64, StoreError> {
        let now = Instant::now();
        let mut state = self.lock();
        let expired = state.records.iter().filter(|(_, record)| !record.is_live(now));
        let expired: Vec<_> = expired.map(|(id, _)| *id).take(batch as usize).collect();
        for id in &expired {
            state.records.remove(id);
        }
        Ok(expired.len() as u64)
    }

    async fn status(&self, _session: &CallSession, resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        Ok(self.lock().statuses.get(&resource.id).copied().flatten())
    }
}

#[derive(Debug, Default)]
struct State {
    records: HashMap<(OwnerId, KeyId), Record>,
    statuses: HashMap<ResourceId, Option<OutboxStatus>>,
}

#[derive(Debug)]
struct Record {
    token: Uuid,
    procedure: String,
    request: RequestHashes,
    attempts: u32,
    created: Instant,
    /// `None` after a release or an abandonment.
    lease_expires: Option<Instant>,
    expires: Instant,
    /// Whether the reservation was abandoned: the call may have taken effect.
    unknown: bool,
    outcome: Option<(StoredResponse, Option<Resource>)>,
}

impl Record {
    fn reserved(claim: &Claim, now: Instant) -> Self {
        Self {
            token: claim.reservation.token,
            procedure: claim.procedure.clone(),
            request: claim.request.clone(),
            attempts: 1,
            created: now,
            lease_expires: Some(now + claim.lease),
            expires: now + claim.lease.max(claim.retention),
            unknown: false,
            outcome: None,
        }
    }

    fn take_over(&mut self, claim: &Claim, now: Instant) {
        let Self { attempts, created, unknown, .. } = *self;
        let request = self.request.clone();
        *self = Self { attempts: attempts + 1, created, unknown, request, ..Self::reserved(claim, now) };
    }

    /// Decides a claim of the same request while there is no outcome.
    fn claimed(&self, claim: &Claim, now: Instant) -> Claimed {
        match claim.on_lease_ended {
            _ if self.token == claim.reservation.token => Claimed::Held,
            _ if self.lease_left(now) > Duration::ZERO => Claimed::InFlight { lease_left: self.lease_left(now) },
            LeasePolicy::Reconcile => Claimed::TakeOver,
            LeasePolicy::Rerun if !self.unknown => Claimed::TakeOver,
            LeasePolicy::Refuse | LeasePolicy::Rerun => Claimed::Refused,
        }
    }

    fn lease_left(&self, now: Instant) -> Duration {
        self.lease_expires.map_or(Duration::ZERO, |expires| expires.saturating_duration_since(now))
    }

    fn is_held_by(&self, reservation: &Reservation) -> bool {
        self.token == reservation.token && self.outcome.is_none()
    }

    fn is_live(&self, now: Instant) -> bool {
        self.expires > now
    }
}

/// The decision about a claim of a reserved key.
enum Claimed {
    Held,
    InFlight { lease_left: Duration },
    Refused,
    TakeOver,
}
