//! Keeps records in the memory of this process.

use std::time::Duration;

use super::{
    look_up::look_up,
    record::{Look, Record},
    state::{Shared, id},
    transaction::NoTransaction,
};
use crate::{
    caller::OwnerId,
    status::{OutboxStatus, Resource, ResourceId},
    store::{
        AbandonOutcome, AbandonedKey, AbandonedQuery, BeginOutcome, CallSession, Claim, ClaimOutcome, CompleteOutcome,
        Completion, ExtendOutcome, KeyRecord, LookUp, ReleaseOutcome, Reservation, Store, StoreError, StoreErrorKind,
        StoreTransaction, TransactionOptions,
    },
};

/// A store that keeps records in this process, for tests and first steps. They are lost when the process ends, and
/// other processes cannot see them. Clones share their records.
///
/// Its operations never fail. Its clock is that of tokio, so that tests can pause and advance it.
///
/// It has no database, and so a layer with a transactional procedure cannot be built with it, except in tests
/// (`accept_transactions`, feature `testing`).
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Shared,
    accepts_transactions: bool,
}

impl MemoryStore {
    /// Makes a store without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts transactional procedures, for tests without a database. Defaults to refusing them: a layer with one cannot be
    /// built.
    ///
    /// The layer keeps its promises about the record: a call that succeeds is recorded, a call that fails leaves nothing, and a
    /// key is held while its handler runs. But no transaction is behind it. The handler's request has no `Transaction`, so a
    /// handler that asks for one fails, with an error that says why. A handler whose repository is elsewhere, such as a fake one
    /// in memory, does run; what it has written there stays if the call fails.
    ///
    /// ```
    /// use tonic_idempotency::store::{MemoryStore, Store as _};
    ///
    /// assert!(!MemoryStore::new().has_transactions());
    /// assert!(MemoryStore::new().accept_transactions().has_transactions());
    /// ```
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn accept_transactions(mut self) -> Self {
        self.accepts_transactions = true;
        self
    }

    /// Advances the store's clock, and that of its clones: leases and retentions end sooner. Does not change tokio's clock, by
    /// which the layer renews leases, waits, and ages its cached replays.
    /// [`Harness::advance`](crate::testing::Harness::advance) also empties the cache.
    #[cfg(feature = "testing")]
    pub fn advance(&self, by: Duration) {
        self.state.lock().ahead += by;
    }

    /// Sets the status that replays report for a resource; `None` for no status. Defaults to [`OutboxStatus::Pending`] for
    /// each resource that a call created.
    pub fn set_status(&self, resource: impl Into<ResourceId>, status: impl Into<Option<OutboxStatus>>) {
        self.state.lock().statuses.insert(resource.into(), status.into());
    }

    /// Returns the number of records. Expired records count until they are swept or replaced.
    pub fn len(&self) -> usize {
        self.state.lock().records.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Store for MemoryStore {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        let mut state = self.state.lock();
        let now = state.now();
        Ok(match state.look(claim, now) {
            Look::Absent => {
                state.records.insert(id(&claim.reservation), Record::reserved(claim, now));
                ClaimOutcome::Acquired
            }
            Look::Held { attempts } => {
                if let Some(record) = state.records.get_mut(&id(&claim.reservation)) {
                    record.renew(claim.lease, now);
                }
                if attempts == 1 { ClaimOutcome::Acquired } else { ClaimOutcome::TakenOver }
            }
            Look::Refused(outcome) => outcome,
            Look::TakeOver => {
                if let Some(record) = state.records.get_mut(&id(&claim.reservation)) {
                    record.take_over(claim, now);
                }
                ClaimOutcome::TakenOver
            }
        })
    }

    async fn extend(&self, reservation: &Reservation, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        let mut state = self.state.lock();
        let now = state.now();
        let record = state.records.get_mut(&id(reservation));
        Ok(record.map_or(ExtendOutcome::NotHeld, |record| record.extend(reservation, lease, now)))
    }

    async fn complete(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        let mut state = self.state.lock();
        let now = state.now();
        let record = state.records.get_mut(&id(reservation));
        Ok(record.map_or(CompleteOutcome::Fenced, |record| record.complete(reservation, completion, now)))
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        let mut state = self.state.lock();
        let Some(record) = state.records.get_mut(&id(reservation)) else { return Ok(ReleaseOutcome::NotHeld) };
        let outcome = record.release(reservation);
        if outcome == ReleaseOutcome::Released && record.leaves_nothing() {
            state.records.remove(&id(reservation));
        }
        Ok(outcome)
    }

    async fn abandon(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        let mut state = self.state.lock();
        let record = state.records.get_mut(&id(reservation));
        Ok(record.map_or(AbandonOutcome::NotHeld, |record| record.abandon(reservation)))
    }

    async fn abandoned(&self, search: &AbandonedQuery) -> Result<Vec<AbandonedKey>, StoreError> {
        let state = self.state.lock();
        let now = state.now();
        let mut found: Vec<_> = state.records.iter().filter(|(_, record)| record.is_found_by(search, now)).collect();
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
        let mut state = self.state.lock();
        let now = state.now();
        let expired = state.records.iter().filter(|(_, record)| !record.is_live(now));
        let expired: Vec<_> = expired.map(|(id, _)| *id).take(batch as usize).collect();
        for id in &expired {
            state.records.remove(id);
        }
        Ok(expired.len() as u64)
    }

    async fn status(&self, _session: &CallSession, resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        Ok(self.state.lock().statuses.get(&resource.id).copied().flatten())
    }

    async fn look_up(&self, question: &LookUp) -> Result<KeyRecord, StoreError> {
        Ok(look_up(&self.state.lock(), question))
    }

    fn has_transactions(&self) -> bool {
        self.accepts_transactions
    }

    async fn begin(&self, claim: &Claim, options: TransactionOptions) -> Result<BeginOutcome, StoreError> {
        if !self.accepts_transactions {
            return Err(StoreErrorKind::Refused.into());
        }
        Ok(NoTransaction::begin(&self.state, claim, options))
    }

    async fn begin_without_key(
        &self,
        _owner: Option<OwnerId>,
        _session: &CallSession,
        _options: TransactionOptions,
    ) -> Result<Box<dyn StoreTransaction>, StoreError> {
        if !self.accepts_transactions {
            return Err(StoreErrorKind::Refused.into());
        }
        Ok(Box::new(NoTransaction::without_key(&self.state)))
    }
}
