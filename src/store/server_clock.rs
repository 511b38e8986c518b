//! Reads the clock of a store's server off its answers.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, futures::Notified},
    time::Instant,
};

/// The lead over the estimate from which on the clock has jumped: the durations of answers that are read differ by less.
const JUMP: Duration = Duration::from_secs(1);

/// The clock of a store's server, read off its answers: for stores whose attempts to claim a key may arrive after their call has ended. Each
/// attempt carries the time after which it must do nothing, by that clock.
///
/// The estimate is never ahead of the clock, and behind it by no more than the fastest answer took. If the clock is set back, the estimate
/// is ahead until the next answer. Times are counted from 1970.
#[derive(Debug, Default)]
pub struct ServerClock {
    reading: Mutex<Option<Reading>>,
    jumps: Notify,
}

/// A reading: the clock showed at least `shown` at the time `at`.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    shown: Duration,
}

impl Reading {
    fn shows_at(self, time: Instant) -> Duration {
        let [later, earlier] = [time.saturating_duration_since(self.at), self.at.saturating_duration_since(time)];
        (self.shown + later).saturating_sub(earlier)
    }
}

impl ServerClock {
    /// Returns what the clock shows at this time; `None` before the first answer.
    pub fn shows_at(&self, time: Instant) -> Option<Duration> {
        let reading = *self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        reading.map(|reading| reading.shows_at(time))
    }

    /// Notes the time in an answer that has just arrived. Its question was sent at `sent`.
    pub fn note(&self, sent: Instant, shown: Duration) {
        let new = Reading { at: Instant::now(), shown };
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if reading.is_some_and(|old| old.shows_at(new.at) + JUMP < shown) {
            self.jumps.notify_waiters();
        }
        // The clock is ahead of the estimate, or was set back.
        if reading.is_none_or(|old| old.shows_at(new.at) < shown || old.shows_at(sent) > shown) {
            *reading = Some(new);
        }
    }

    /// Returns when the clock is next seen to have jumped ahead, by a second at least: leases may have ended with it. Counts from this call.
    pub(crate) fn jumps(&self) -> Notified<'_> {
        self.jumps.notified()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Asks while the clock shows this, gets the answer so much later, and returns how far the clock is believed to be behind.
    async fn behind_after(clock: &ServerClock, takes: Duration, shown: Duration) -> Duration {
        let sent = Instant::now();
        tokio::time::advance(takes).await;
        clock.note(sent, shown);
        shown.checked_sub(clock.shows_at(sent).expect("a reading")).expect("it is not believed to be ahead")
    }

    #[tokio::test(start_paused = true)]
    async fn is_believed_as_the_fastest_answer_says_it() {
        let clock = ServerClock::default();
        assert_eq!(clock.shows_at(Instant::now()), None);
        let mut shown = 1_000 * SECOND;
        assert_eq!(behind_after(&clock, SECOND, shown).await, SECOND);
        shown += SECOND;
        assert_eq!(behind_after(&clock, MILLISECOND, shown).await, MILLISECOND);
        shown += MILLISECOND;
        assert_eq!(behind_after(&clock, SECOND, shown).await, MILLISECOND);
        // It is set back, and then forward.
        assert_eq!(behind_after(&clock, MILLISECOND, 500 * SECOND).await, MILLISECOND);
        assert_eq!(behind_after(&clock, SECOND, 2_000 * SECOND).await, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn tells_those_who_wait_that_it_has_jumped_ahead() {
        let clock = ServerClock::default();
        clock.note(Instant::now(), 1_000 * SECOND);
        tokio::time::advance(SECOND).await;
        for (shown, jumped) in [(1_001 * SECOND, false), (900 * SECOND, false), (902 * SECOND, true)] {
            let jumps = clock.jumps();
            clock.note(Instant::now(), shown);
            assert_eq!(jumps.now_or_never().is_some(), jumped, "{shown:?}");
        }
    }
}
