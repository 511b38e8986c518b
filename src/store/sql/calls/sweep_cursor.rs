//! The position of a sweep, at which its next batch begins.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The position at which the last batch of a sweep ended, as `tenant.idempotency_sweep` returns it. Clones share it.
///
/// The next batch begins there, and does not scan again the index entries of all rows that are gone, which stay until a vacuum removes
/// them. The position is only a hint: without it, a batch begins with the rows that expired first.
#[derive(Clone, Debug, Default)]
pub(in crate::store::sql) struct SweepCursor(Arc<Mutex<Option<String>>>);

impl SweepCursor {
    /// Takes the position for a batch. While that batch runs, and after it has failed, there is none.
    pub(in crate::store::sql) fn take(&self) -> Option<String> {
        self.lock().take()
    }

    /// Sets the position after a batch; `None` if nothing is left to sweep.
    pub(in crate::store::sql) fn set(&self, reached: Option<String>) {
        *self.lock() = reached;
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
