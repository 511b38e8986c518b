//! A store that never finishes recording a call.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tonic_idempotency::{
    status::{OutboxStatus, Resource},
    store::{
        AbandonOutcome, AbandonedKey, AbandonedQuery, CallSession, Claim, ClaimOutcome, CompleteOutcome, Completion,
        ExtendOutcome, MemoryStore, ReleaseOutcome, Reservation, Store, StoreError,
    },
};

/// A store in memory that does not answer completions.
#[derive(Clone, Debug, Default)]
pub(super) struct Settling {
    inner: MemoryStore,
    settling: Arc<AtomicUsize>,
}

impl Settling {
    /// Returns the number of completions that wait for an answer.
    pub(super) fn settling(&self) -> usize {
        self.settling.load(Ordering::Relaxed)
    }
}

impl Store for Settling {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        self.inner.claim(claim).await
    }

    async fn extend(&self, reservation: &Reservation, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        self.inner.extend(reservation, lease).await
    }

    async fn complete(&self, _: &Reservation, _: &Completion) -> Result<CompleteOutcome, StoreError> {
        self.settling.fetch_add(1, Ordering::Relaxed);
        pending().await
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        self.inner.release(reservation).await
    }

    async fn abandon(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        self.inner.abandon(reservation).await
    }

    async fn abandoned(&self, query: &AbandonedQuery) -> Result<Vec<AbandonedKey>, StoreError> {
        self.inner.abandoned(query).await
    }

    async fn sweep(&self, batch: u32) -> Result<u64, StoreError> {
        self.inner.sweep(batch).await
    }

    async fn status(&self, session: &CallSession, resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        self.inner.status(session, resource).await
    }
}
