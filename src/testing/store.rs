//! The store of a harness, which a test can make unavailable.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{Record, link::Link, lock, process::Process};
use crate::{
    caller::OwnerId,
    key::KeyId,
    policy::{ForeignPolicy, LeasePolicy},
    status::{OutboxStatus, Resource},
    store::{
        AbandonOutcome, AbandonedKey, AbandonedQuery, BeginOutcome, CallSession, Claim, ClaimOutcome, CompleteOutcome,
        Completion, ExtendOutcome, KeyRecord, LookUp, ReleaseOutcome, Reservation, ResourceTypes, ServerClock, Store,
        StoreError, StoreSettings, StoreTransaction, TransactionCapacity, TransactionOptions,
    },
};

/// The store that a [`Harness`](super::Harness) gives to its layer: the test's own store, which the test can make unavailable.
pub struct HarnessStore<S> {
    kept: Arc<RememberingStore<S>>,
    link: Link,
}

/// The store of a test, and a memory of the keys that were claimed.
pub(super) struct RememberingStore<S> {
    pub(super) store: S,
    claimed: Mutex<HashMap<(OwnerId, KeyId), RememberedClaim>>,
    /// Whether the test has made the store unavailable.
    is_cut: Arc<AtomicBool>,
}

/// A claim, kept so that repeating it shows the record of its key.
#[derive(Clone)]
struct RememberedClaim {
    claim: Claim,
    /// `None` for a reservation.
    transaction: Option<TransactionOptions>,
}

impl<S: Store> RememberingStore<S> {
    pub(super) fn new(store: S) -> Self {
        Self { store, claimed: Mutex::default(), is_cut: Arc::default() }
    }

    pub(super) fn set_available(&self, available: bool) {
        self.is_cut.store(!available, Ordering::SeqCst);
    }

    /// Returns the record of a key: claims the key as another call, and releases it if it was acquired.
    pub(super) async fn record(&self, owner: OwnerId, key: KeyId) -> Result<Record, StoreError> {
        let claimed = lock(&self.claimed).get(&(owner, key)).cloned();
        let Some(RememberedClaim { claim, transaction }) = claimed else { return Ok(Record::Absent) };
        let look = Claim {
            reservation: Reservation::new(owner, key),
            on_lease_ended: LeasePolicy::Refuse,
            on_foreign_reservation: ForeignPolicy::InProgress,
            ..claim
        };
        let outcome = match transaction {
            None => {
                let outcome = self.store.claim(&look).await?;
                if matches!(outcome, ClaimOutcome::Acquired) {
                    self.store.release(&look.reservation).await?;
                }
                outcome
            }
            Some(options) => match self.store.begin(&look, options).await? {
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
        lock(&self.claimed).insert((owner, key), RememberedClaim { claim: claim.clone(), transaction });
    }
}

impl<S: Store> HarnessStore<S> {
    /// The store, as a process reaches it.
    pub(super) fn new(kept: &Arc<RememberingStore<S>>, process: &Process) -> Self {
        Self { kept: Arc::clone(kept), link: Link::new(process, &kept.is_cut) }
    }
}

impl<S: Store> Store for HarnessStore<S> {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        let outcome = self.link.ask(self.kept.store.claim(claim)).await?;
        if !matches!(outcome, ClaimOutcome::Mismatch(_)) {
            self.kept.remember(claim, None);
        }
        Ok(outcome)
    }

    async fn extend(&self, reservation: &Reservation, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        self.link.ask(self.kept.store.extend(reservation, lease)).await
    }

    async fn complete(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        self.link.ask(self.kept.store.complete(reservation, completion)).await
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        self.link.ask(self.kept.store.release(reservation)).await
    }

    async fn abandon(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        self.link.ask(self.kept.store.abandon(reservation)).await
    }

    async fn abandoned(&self, search: &AbandonedQuery) -> Result<Vec<AbandonedKey>, StoreError> {
        self.link.ask(self.kept.store.abandoned(search)).await
    }

    async fn sweep(&self, batch: u32) -> Result<u64, StoreError> {
        self.link.ask(self.kept.store.sweep(batch)).await
    }

    async fn status(&self, session: &CallSession, resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        self.link.ask(self.kept.store.status(session, resource)).await
    }

    async fn look_up(&self, look_up: &LookUp) -> Result<KeyRecord, StoreError> {
        self.link.ask(self.kept.store.look_up(look_up)).await
    }

    fn limits_records(&self) -> bool {
        self.kept.store.limits_records()
    }

    fn set_up(&self, settings: &StoreSettings) {
        self.kept.store.set_up(settings);
    }

    fn transaction_capacity(&self) -> Option<TransactionCapacity> {
        self.kept.store.transaction_capacity()
    }

    fn resource_types(&self) -> Option<&ResourceTypes> {
        self.kept.store.resource_types()
    }

    fn has_statuses(&self) -> bool {
        self.kept.store.has_statuses()
    }

    fn forgets_expired(&self) -> bool {
        self.kept.store.forgets_expired()
    }

    fn server_clock(&self) -> Option<&ServerClock> {
        self.kept.store.server_clock()
    }

    fn has_transactions(&self) -> bool {
        self.kept.store.has_transactions()
    }

    async fn begin(&self, claim: &Claim, options: TransactionOptions) -> Result<BeginOutcome, StoreError> {
        let outcome = self.link.ask(self.kept.store.begin(claim, options)).await?;
        if !matches!(outcome, BeginOutcome::Refused(ClaimOutcome::Mismatch(_))) {
            self.kept.remember(claim, Some(options));
        }
        Ok(match outcome {
            BeginOutcome::Open { transaction, taken_over } => {
                BeginOutcome::Open { transaction: self.link.transaction(transaction), taken_over }
            }
            refused => refused,
        })
    }

    async fn begin_without_key(
        &self,
        owner: Option<OwnerId>,
        session: &CallSession,
        options: TransactionOptions,
    ) -> Result<Box<dyn StoreTransaction>, StoreError> {
        let begun = self.link.ask(self.kept.store.begin_without_key(owner, session, options)).await;
        begun.map(|transaction| self.link.transaction(transaction))
    }
}

impl<S> Clone for HarnessStore<S> {
    fn clone(&self) -> Self {
        Self { kept: Arc::clone(&self.kept), link: self.link.clone() }
    }
}

impl<S> fmt::Debug for HarnessStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HarnessStore").finish_non_exhaustive()
    }
}
