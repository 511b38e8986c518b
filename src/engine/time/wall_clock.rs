//! The clock with which the time in a key is compared.

#[cfg(feature = "testing")]
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The wall clock of this server. A test can advance it.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    /// The time by which it is ahead of the machine's clock.
    #[cfg(feature = "testing")]
    ahead: Mutex<Duration>,
}

impl WallClock {
    /// The time since the Unix epoch.
    pub(in crate::engine) fn now(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        #[cfg(feature = "testing")]
        let now = now + *self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        now
    }

    #[cfg(feature = "testing")]
    pub(crate) fn advance(&self, by: Duration) {
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}
