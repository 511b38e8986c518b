//! The contact of a process with its server: whether that can be asked is a matter of time.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The answers and failures of all operations of a store.
#[derive(Debug, Default)]
pub(in crate::store::sql) struct Contact(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    answered: Option<Instant>,
    /// The first and the last failure since that answer.
    failed: Option<[Instant; 2]>,
}

impl Contact {
    /// Notes an answer, which may be an error.
    pub(in crate::store::sql) fn answers(&self) {
        *self.state() = State { answered: Some(Instant::now()), failed: None };
    }

    /// Notes that an attempt has had no answer, or no connection. After none for a timeout, a failure begins a new outage.
    pub(in crate::store::sql) fn fails(&self, timeout: Duration) {
        let (mut state, now) = (self.state(), Instant::now());
        state.failed = match state.failed {
            Some([first, last]) if now - last < timeout => Some([first, now]),
            _ => Some([now; 2]),
        };
    }

    /// Returns whether no operation has had an answer for one timeout since the first failure, of which the last is not older.
    pub(in crate::store::sql) fn is_lost(&self, timeout: Duration) -> bool {
        self.state().failed.is_some_and(|[first, last]| first.elapsed() >= timeout && last.elapsed() < timeout)
    }

    /// Returns whether any operation has had an answer since this time.
    pub(in crate::store::sql) fn has_answered(&self, since: Instant) -> bool {
        self.state().answered.is_some_and(|answered| answered >= since)
    }

    /// Ignores poisoning: no operation leaves it half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn is_lost_after_one_timeout_of_failures_without_an_answer() {
        let contact = Contact::default();
        let begun = Instant::now();
        for _ in 0..4 {
            contact.fails(TIMEOUT);
            assert!(!contact.is_lost(TIMEOUT));
            advance(TIMEOUT / 4).await;
        }
        assert!(contact.is_lost(TIMEOUT) && !contact.has_answered(begun));
        contact.answers();
        assert!(!contact.is_lost(TIMEOUT) && contact.has_answered(begun));
        contact.fails(TIMEOUT);
        assert!(!contact.is_lost(TIMEOUT), "a new outage");
        advance(2 * TIMEOUT).await;
        assert!(!contact.is_lost(TIMEOUT), "the last failure was long ago");
        contact.fails(TIMEOUT);
        assert!(!contact.is_lost(TIMEOUT), "a new outage");
    }
}
