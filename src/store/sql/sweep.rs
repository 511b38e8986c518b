//! Where a sweep has come to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the last batch of a sweep has ended, in the words of `tenant.idempotency_sweep`. Clones share it.
///
/// The next batch begins there, and does not pass once more over the index entries of all rows that are gone: they stay until a vacuum
/// removes them. It is a hint alone. Without it, a batch begins with the longest expired rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached(Arc<Mutex<Option<String>>>);

impl Reached {
    /// Takes it for a batch. If that fails, or if another one runs beside it, there is none.
    pub(super) fn take(&self) -> Option<String> {
        self.lock().take()
    }

    /// Sets it after a batch; `None` if nothing is left to sweep.
    pub(super) fn set(&self, reached: Option<String>) {
        *self.lock() = reached;
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
