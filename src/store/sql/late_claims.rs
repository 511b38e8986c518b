//! [`LateClaims`].

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::time::Instant;
use uuid::Uuid;

use super::progress::Progress;

/// Claims that have ended while an attempt of theirs had no answer, by their tokens: it may still arrive, and reserve the key, until its time
/// is over. While the reservation is there, that changes nothing.
#[derive(Default)]
pub(super) struct LateClaims(Mutex<HashMap<Uuid, Arc<Progress>>>);

impl LateClaims {
    /// Notes that a claim has ended, if that is so.
    pub(super) fn note(&self, token: Uuid, progress: &Arc<Progress>) {
        if may_arrive(progress) {
            let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            claims.retain(|_, progress| may_arrive(progress));
            claims.insert(token, Arc::clone(progress));
        }
    }

    /// Returns whether an attempt of a claim may still arrive.
    pub(super) fn has(&self, token: Uuid) -> bool {
        self.of(token).is_some_and(|progress| may_arrive(&progress))
    }

    /// Waits until no attempt of a claim can arrive any more. Most have none: then it returns at once.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed.
    pub(super) async fn are_over(&self, token: Uuid) {
        if let Some(progress) = self.of(token) {
            progress.claims_are_over().await;
        }
    }

    fn of(&self, token: Uuid) -> Option<Arc<Progress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&token).map(Arc::clone)
    }
}

fn may_arrive(progress: &Progress) -> bool {
    progress.may_claim_until().is_some_and(|until| until > Instant::now())
}
