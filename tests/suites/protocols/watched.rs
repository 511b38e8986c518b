//! Counts the calls that a server drops.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::prelude::*;

/// Counts the calls whose futures were dropped before they answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    given_up: Arc<AtomicUsize>,
}

impl Watch {
    pub(crate) fn given_up(&self) -> usize {
        self.given_up.load(Ordering::SeqCst)
    }

    /// Watches a call.
    pub(crate) fn over<F: Future>(&self, call: F) -> impl Future<Output = F::Output> + use<F> {
        let unanswered = Unanswered(self.clone());
        async move {
            let answer = call.await;
            std::mem::forget(unanswered);
            answer
        }
    }
}

/// Counts the call when dropped.
struct Unanswered(Watch);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.given_up.fetch_add(1, Ordering::SeqCst);
    }
}
