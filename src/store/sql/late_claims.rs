//! [`LateClaims`].

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

/// Claims that have ended while an attempt of theirs had no answer, by their tokens: it may still arrive, and reserve the key, until this
/// time. While the reservation is there, that changes nothing.
#[derive(Debug, Default)]
pub(super) struct LateClaims(Mutex<HashMap<Uuid, Instant>>);

impl LateClaims {
    pub(super) fn add(&self, token: Uuid, until: Instant) {
        let now = Instant::now();
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.retain(|_, until| *until > now);
        if until > now {
            claims.insert(token, until);
        }
    }

    /// Returns whether an attempt of a claim may still arrive.
    pub(super) fn has(&self, token: Uuid) -> bool {
        self.until(token).is_some_and(|until| until > Instant::now())
    }

    /// Waits until no attempt of a claim can arrive any more. Most have none: then it returns at once.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed.
    pub(super) async fn are_over(&self, token: Uuid) {
        if let Some(until) = self.until(token) {
            sleep_until(until).await;
        }
    }

    fn until(&self, token: Uuid) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&token).copied()
    }
}
