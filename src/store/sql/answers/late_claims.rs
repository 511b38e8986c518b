//! Remembers claims that have ended, and whose attempts may still reserve their keys.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::time::Instant;
use uuid::Uuid;

use super::progress::OperationProgress;
use crate::store::{StoreError, StoreErrorKind};

/// Claims that have ended while an attempt of theirs had no answer, by their tokens: it may still arrive, or be in its COMMIT, and reserve the
/// key. While the reservation is there, that changes nothing.
#[derive(Default)]
pub(in crate::store::sql) struct LateClaims(Mutex<HashMap<Uuid, Arc<OperationProgress>>>);

impl LateClaims {
    /// Notes a claim that has ended, if an attempt of it may still reserve the key.
    pub(in crate::store::sql) fn note(&self, token: Uuid, progress: &Arc<OperationProgress>) {
        if progress.may_claim() {
            // An attempt that goes on has taken it with it. Kept here, it would count a status as overdue that no connection waits for.
            drop(progress.take_overdue_status());
            let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            claims.retain(|_, progress| progress.may_claim());
            claims.insert(token, Arc::clone(progress));
        }
    }

    /// Returns whether an attempt of a claim may still reserve the key.
    pub(in crate::store::sql) fn has(&self, token: Uuid) -> bool {
        self.of(token).is_some_and(|progress| progress.may_claim())
    }

    /// Waits until no attempt of a claim can reserve the key any more. For most claims it returns at once.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if an attempt still can at the deadline: a COMMIT may wait for its standby as long as it likes.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed.
    pub(in crate::store::sql) async fn are_over(&self, token: Uuid, deadline: Instant) -> Result<(), StoreError> {
        match self.of(token) {
            // Rare: it takes no memory in each call.
            Some(progress) if !Box::pin(progress.claims_are_over(deadline)).await => {
                let cause = "the claim is not answered, and may still reserve the key";
                Err(StoreError::new(StoreErrorKind::Overloaded, cause).after_a_lost_answer())
            }
            _ => Ok(()),
        }
    }

    fn of(&self, token: Uuid) -> Option<Arc<OperationProgress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&token).map(Arc::clone)
    }
}
