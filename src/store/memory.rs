use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;
use uuid::Uuid;

use super::{
    Claim, ClaimOutcome, CompleteOutcome, Completion, ReleaseOutcome, Replay, Reservation, Resource, Store, StoreError,
    StoredResponse,
};
use crate::{IdempotencyKey, LeasePolicy, UserId, canonical::RequestHash, status::OutboxStatus};

/// Keeps records in this process, for tests and for trying things out: they are gone with it, and no other process sees
/// them. Clones share their records.
///
/// Its clock is tokio's, so that a test with paused time can move it.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    records: HashMap<(UserId, IdempotencyKey), Record>,
    statuses: HashMap<Uuid, OutboxStatus>,
}

#[derive(Debug)]
struct Record {
    token: Uuid,
    procedure: String,
    request_hash: RequestHash,
    lease_expires: Instant,
    expires: Instant,
    outcome: Option<(StoredResponse, Option<Resource>)>,
}

impl Record {
    fn reserved(claim: &Claim, now: Instant) -> Self {
        Self {
            token: claim.reservation.token,
            procedure: claim.procedure.clone(),
            request_hash: claim.request_hash,
            lease_expires: now + claim.lease,
            expires: now + claim.lease.max(claim.retention),
            outcome: None,
        }
    }

    fn is_live(&self, now: Instant) -> bool {
        self.expires > now
    }
}

impl MemoryStore {
    /// A store without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what a replay reports of a resource.
    pub fn set_status(&self, resource: Uuid, status: OutboxStatus) {
        self.lock().statuses.insert(resource, status);
    }

    /// How many records there are, expired ones included.
    pub fn len(&self) -> usize {
        self.lock().records.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// No operation leaves the state half changed, so one that panicked does not matter to the next.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        let now = Instant::now();
        let mut state = self.lock();
        let State { records, statuses } = &mut *state;
        let mut entry = match records.entry((claim.reservation.user, claim.reservation.key)) {
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
        if let Some(mismatch) = claim.mismatch(&entry.get().procedure, entry.get().request_hash.as_bytes()) {
            return Ok(ClaimOutcome::Mismatch(mismatch));
        }
        let record = entry.get();
        Ok(match &record.outcome {
            Some((response, resource)) => {
                let resource = resource.as_ref().map(|resource| resource.id);
                let status = resource.and_then(|resource| statuses.get(&resource).copied());
                ClaimOutcome::Replay(Replay { response: response.clone(), resource, status: Ok(status) })
            }
            None if record.token == claim.reservation.token => ClaimOutcome::Acquired,
            None if record.lease_expires > now => ClaimOutcome::InFlight { lease_left: record.lease_expires - now },
            None if claim.on_lease_ended == LeasePolicy::Refuse => ClaimOutcome::OutcomeUnknown,
            None => {
                entry.insert(Record::reserved(claim, now));
                ClaimOutcome::Acquired
            }
        })
    }

    async fn complete(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        let now = Instant::now();
        let mut state = self.lock();
        let record = state.records.get_mut(&(reservation.user, reservation.key));
        let Some(record) = record.filter(|record| record.token == reservation.token) else {
            return Ok(CompleteOutcome::Fenced);
        };
        if record.outcome.is_some() {
            return Ok(CompleteOutcome::AlreadyCompleted);
        }
        record.outcome = Some((completion.response.clone(), completion.resource.clone()));
        record.expires = now + completion.retention;
        Ok(CompleteOutcome::Completed)
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        let mut state = self.lock();
        match state.records.entry((reservation.user, reservation.key)) {
            Entry::Occupied(entry) if entry.get().token == reservation.token && entry.get().outcome.is_none() => {
                entry.remove();
                Ok(ReleaseOutcome::Released)
            }
            _ => Ok(ReleaseOutcome::NotHeld),
        }
    }

    async fn sweep(&self, batch: u32) -> Result<u64, StoreError> {
        let now = Instant::now();
        let mut state = self.lock();
        let expired = state.records.iter().filter(|(_, record)| !record.is_live(now));
        let expired: Vec<_> = expired.map(|(owner, _)| *owner).take(batch as usize).collect();
        for owner in &expired {
            state.records.remove(owner);
        }
        Ok(expired.len() as u64)
    }

    async fn status(&self, _user: UserId, resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        Ok(self.lock().statuses.get(&resource.id).copied())
    }
}
