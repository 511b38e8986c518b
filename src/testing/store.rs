//! [`HarnessStore`].

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::Record;
use crate::{
    caller::OwnerId,
    key::KeyId,
    policy::{ForeignPolicy, LeasePolicy},
    status::{OutboxStatus, Resource},
    store::{
        AbandonOutcome, AbandonedKey, AbandonedQuery, BeginOutcome, CallSession, Claim, ClaimOutcome, CompleteOutcome,
        Completion, ExtendOutcome, KeyRecord, LookUp, ReleaseOutcome, Reservation, ResourceTypes, ServerClock, Store,
        StoreError, StoreTransaction, TransactionOptions,
    },
};

/// The store that a [`Harness`](super::Harness) gives to its layer: the test's own, and a memory of the keys that were claimed.
pub struct HarnessStore<S>(Arc<Inner<S>>);

struct Inner<S> {
    store: S,
    claimed: Mutex<HashMap<(OwnerId, KeyId), Claimed>>,
}

/// A claim, so that it can be made again to see what the store has of it.
#[derive(Clone)]
struct Claimed {
    claim: Claim,
    /// `None` for a reservation.
    transaction: Option<TransactionOptions>,
}

impl<S: Store> HarnessStore<S> {
    pub(super) fn new(store: S) -> Self {
        Self(Arc::new(Inner { store, claimed: Mutex::default() }))
    }

    pub(super) fn inner(&self) -> &S {
        &self.0.store
    }

    /// Returns the record of a key: claims it as another call, and lets it go if that holds it.
    pub(super) async fn record(&self, owner: OwnerId, key: KeyId) -> Result<Record, StoreError> {
        let claimed = self.claimed().get(&(owner, key)).cloned();
        let Some(Claimed { claim, transaction }) = claimed else { return Ok(Record::Absent) };
        let look = Claim {
            reservation: Reservation::new(owner, key),
            on_lease_ended: LeasePolicy::Refuse,
            on_foreign_reservation: ForeignPolicy::InProgress,
            ..claim
        };
        let outcome = match transaction {
            None => {
                let outcome = self.0.store.claim(&look).await?;
                if matches!(outcome, ClaimOutcome::Acquired) {
                    self.0.store.release(&look.reservation).await?;
                }
                outcome
            }
            Some(options) => match self.0.store.begin(&look, options).await? {
                BeginOutcome::Open { transaction, taken_over } => {
                    transaction.roll_back().await;
                    if taken_over { ClaimOutcome::TakenOver } else { ClaimOutcome::Acquired }
                }
                BeginOutcome::Refused(outcome) => outcome,
            },
        };
        Ok(Record::found(outcome))
    }

    fn remember(&self, claim: &Claim, transaction: Option<TransactionOptions>) {
        let Reservation { owner, key, .. } = claim.reservation;
        self.claimed().insert((owner, key), Claimed { claim: claim.clone(), transaction });
    }

    fn claimed(&self) -> MutexGuard<'_, HashMap<(OwnerId, KeyId), Claimed>> {
        self.0.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Store for HarnessStore<S> {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        let outcome = self.0.store.claim(claim).await?;
        if !matches!(outcome, ClaimOutcome::Mismatch(_)) {
            self.remember(claim, None);
        }
        Ok(outcome)
    }

    async fn extend(&self, reservation: &Reservation, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        self.0.store.extend(reservation, lease).await
    }

    async fn complete(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        self.0.store.complete(reservation, completion).await
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        self.0.store.release(reservation).await
    }

    async fn abandon(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        self.0.store.abandon(reservation).await
    }

    async fn abandoned(&self, search: &AbandonedQuery) -> Result<Vec<AbandonedKey>, StoreError> {
        self.0.store.abandoned(search).await
    }

    async fn sweep(&self, batch: u32) -> Result<u64, StoreError> {
        self.0.store.sweep(batch).await
    }

    async fn status(&self, session: &CallSession, resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        self.0.store.status(session, resource).await
    }

    async fn look_up(&self, look_up: &LookUp) -> Result<KeyRecord, StoreError> {
        self.0.store.look_up(look_up).await
    }

    fn resource_types(&self) -> Option<&ResourceTypes> {
        self.0.store.resource_types()
    }

    fn has_statuses(&self) -> bool {
        self.0.store.has_statuses()
    }

    fn forgets_expired(&self) -> bool {
        self.0.store.forgets_expired()
    }

    fn server_clock(&self) -> Option<&ServerClock> {
        self.0.store.server_clock()
    }

    fn has_transactions(&self) -> bool {
        self.0.store.has_transactions()
    }

    async fn begin(&self, claim: &Claim, options: TransactionOptions) -> Result<BeginOutcome, StoreError> {
        let outcome = self.0.store.begin(claim, options).await?;
        if !matches!(outcome, BeginOutcome::Refused(ClaimOutcome::Mismatch(_))) {
            self.remember(claim, Some(options));
        }
        Ok(outcome)
    }

    async fn begin_without_key(
        &self,
        owner: Option<OwnerId>,
        session: &CallSession,
        options: TransactionOptions,
    ) -> Result<Box<dyn StoreTransaction>, StoreError> {
        self.0.store.begin_without_key(owner, session, options).await
    }
}

impl<S> Clone for HarnessStore<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> fmt::Debug for HarnessStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HarnessStore").finish_non_exhaustive()
    }
}
