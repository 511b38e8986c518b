//! The attempts at a call: each runs the handler once. A further one follows if the transaction of one has lost against another transaction.

use std::time::Duration;

use tokio::time::Instant;

use crate::pause::{Pauses, shortened};

/// How often a call runs again.
const RERUNS: u32 = 10;

/// The pauses before the second rerun and those after it. The first comes at once: its rival has just been committed.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(2), Duration::from_millis(64));

/// The attempts at a call until now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    /// The time at which the handler has to have ended, in whichever attempt; `None` if none has begun.
    ends: Option<Instant>,
    /// The number of attempts that have lost.
    lost: u32,
}

impl Attempts {
    /// Returns the time at which the handler that begins now has to have ended: `limit` after the first one began.
    pub(super) fn ends(&self, limit: Duration) -> Instant {
        self.ends.unwrap_or_else(|| Instant::now() + limit)
    }

    /// The number of attempts before this one.
    pub(super) fn reruns(&self) -> u32 {
        self.lost
    }

    /// Ends an attempt that has lost, whose handler had to end at this time. Returns the attempts with it, and the time of the next one; `None`
    /// if it was the last, or if there is no time left.
    pub(super) fn next(self, ends: Instant) -> Option<(Self, Instant)> {
        let pause = self.lost.checked_sub(1).map_or(Duration::ZERO, |others| shortened(PAUSES.after(others)));
        let next = Instant::now() + pause;
        (self.lost < RERUNS && next < ends).then_some((Self { ends: Some(ends), lost: self.lost + 1 }, next))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn are_at_most_eleven_with_pauses_that_double() {
        let (mut attempts, minute) = (Attempts::default(), Duration::from_secs(60));
        let ends = attempts.ends(minute);
        for longest in [0, 2, 4, 8, 16, 32, 64, 64, 64, 64] {
            let (after, next) = attempts.next(ends).expect("a rerun");
            let (pause, longest) = (next - Instant::now(), Duration::from_millis(longest));
            assert!(pause <= longest && pause >= longest / 2, "{pause:?} of {longest:?}");
            advance(pause).await;
            attempts = after;
            assert_eq!(attempts.ends(minute), ends, "it counts from the first");
        }
        assert!(attempts.reruns() == 10 && attempts.next(ends).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn end_with_the_time_of_their_handler() {
        let attempts = Attempts::default();
        let ends = attempts.ends(Duration::from_secs(1));
        advance(Duration::from_millis(999)).await;
        assert!(attempts.next(ends).is_some());
        advance(Duration::from_millis(1)).await;
        assert!(attempts.next(ends).is_none());
    }
}
