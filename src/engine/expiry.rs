//! The life of a record, as far as this process can tell.

use std::time::Duration;

use tokio::time::Instant;

use super::clock_reading::ClockReading;

/// The part of its retention by which a record may live shorter than that, from its completion: the store keeps the time that it has
/// set at the claim, if that is about right.
const ACCURACY: u32 = 100;

/// The life of a record: it lives at least this long, from this reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiry {
    from: ClockReading,
    lives: Duration,
}

impl Expiry {
    /// The life of a record that the store has, and of which it said so when it was asked at this time.
    pub(super) fn of_record(asked: ClockReading, lives: Duration) -> Self {
        Self { from: asked, lives }
    }

    /// The life of a record that is about to be made, of a call that asked for its key at this time.
    pub(super) fn of_new_record(claimed: Instant, retention: Duration) -> Self {
        let from = ClockReading::now();
        let since = from.monotonic.saturating_duration_since(claimed);
        Self { from, lives: retention - since.min(retention / ACCURACY) }
    }

    /// Returns how long it still lives; `None` if it has ended, or if a clock went back.
    pub(super) fn left(self, now: ClockReading) -> Option<Duration> {
        self.lives.checked_sub(self.from.until(now)?).filter(|left| !left.is_zero())
    }

    /// Returns how much of its life has passed; `None` if a clock went back.
    pub(super) fn age(self, now: ClockReading) -> Option<Duration> {
        self.from.until(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn of_a_record_ends_when_its_time_has_passed() {
        let expiry = Expiry::of_record(ClockReading::now(), 10 * SECOND);
        assert_eq!(expiry.left(ClockReading::now()), Some(10 * SECOND));
        tokio::time::advance(9 * SECOND).await;
        assert_eq!(expiry.left(ClockReading::now()), Some(SECOND));
        tokio::time::advance(SECOND).await;
        assert_eq!(expiry.left(ClockReading::now()), None);
    }

    /// What the store promises, whether it keeps the time that it has set at the claim or not.
    #[tokio::test(start_paused = true)]
    async fn of_a_new_record_counts_from_the_claim_but_a_hundredth_at_most() {
        let claimed = Instant::now();
        let left = || Expiry::of_new_record(claimed, DAY).left(ClockReading::now()).expect("it is new");
        assert_eq!(left(), DAY);
        tokio::time::advance(60 * SECOND).await;
        assert_eq!(left(), DAY - 60 * SECOND);
        tokio::time::advance(DAY).await;
        assert_eq!(left(), DAY - DAY / 100);
    }
}
