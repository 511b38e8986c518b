//! Tracks attempts of claims that had no answer and may still arrive.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

/// Claims that have ended although one of their attempts had no answer, by token. Until its deadline, such an attempt may still arrive and
/// reserve the key. It changes nothing while the reservation exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateClaims(Arc<Mutex<HashMap<Uuid, Instant>>>);

impl LateClaims {
    /// Notes until when an attempt of a claim may arrive.
    pub(crate) fn note(&self, token: Uuid, until: Instant) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        claims.retain(|_, until| *until > now);
        claims.insert(token, until);
    }

    /// Returns whether an attempt of a claim had no answer, and its time was not over when that was last noted.
    pub(crate) fn has(&self, token: Uuid) -> bool {
        self.of(token).is_some()
    }

    /// Waits until no attempt of a claim can arrive any more. Most have none: then it returns at once.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed.
    pub(crate) async fn are_over(&self, token: Uuid) {
        if let Some(until) = self.of(token) {
            sleep_until(until).await;
        }
    }

    fn of(&self, token: Uuid) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&token).copied()
    }
}
