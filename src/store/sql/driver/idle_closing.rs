//! When the idle connections of a pool were last closed.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// When all idle connections of a pool were last closed, for a pool that does not tell when one was last used: it closes all that are idle
/// if some are [distrusted](super::ConnectionPool::distrust), but not twice for one time.
#[derive(Debug, Default)]
pub struct IdleClosing {
    last: Mutex<Option<Instant>>,
}

impl IdleClosing {
    /// Closes the idle connections, unless that was done since this time. Returns how many were closed.
    pub fn since(&self, since: Instant, close: impl FnOnce() -> usize) -> usize {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last >= since) {
            return 0;
        }
        *last = Some(Instant::now());
        close()
    }
}
