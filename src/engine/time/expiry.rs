//! The remaining lifetime of a record, as far as this process can tell.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::time::clock_reading::ClockReading;

/// The divisor of the retention that gives the time by which a record may expire early, counted from its completion: the store keeps
/// the expiry that it set at the claim, if that is accurate enough.
const ACCURACY: u32 = 100;

/// The expiry of a record: it lives for at least `lives`, counted from `from`.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Expiry {
    from: ClockReading,
    lives: Duration,
}

impl Expiry {
    /// The remaining lifetime of a stored record, as reported at `asked`.
    pub(in crate::engine) fn of_record(asked: ClockReading, lives: Duration) -> Self {
        Self { from: asked, lives }
    }

    /// The lifetime of a record that is made now, for a call that asked for its key at `claimed`.
    pub(in crate::engine) fn of_new_record(claimed: Instant, now: ClockReading, retention: Duration) -> Self {
        let since = now.monotonic.saturating_duration_since(claimed);
        Self { from: now, lives: retention - since.min(retention / ACCURACY) }
    }

    /// Returns the remaining lifetime; `None` if it has ended, or if a clock went back.
    pub(in crate::engine) fn left(self, now: ClockReading) -> Option<Duration> {
        self.lives.checked_sub(self.from.until(now)?).filter(|left| !left.is_zero())
    }

    /// Returns the time that has passed since the reading; `None` if a clock went back.
    pub(in crate::engine) fn age(self, now: ClockReading) -> Option<Duration> {
        self.from.until(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn of_a_record_ends_when_its_time_has_passed() {
        let asked = ClockReading::now();
        let expiry = Expiry::of_record(asked, 10 * SECOND);
        for (passed, left) in [(0, Some(10 * SECOND)), (9, Some(SECOND)), (10, None), (11, None)] {
            assert_eq!(expiry.left(asked.after(passed * SECOND)), left, "{passed}");
        }
    }

    /// The lifetime that the store guarantees, whether or not it keeps the expiry that it set at the claim.
    #[test]
    fn of_a_new_record_counts_from_the_claim_but_a_hundredth_at_most() {
        let claimed = ClockReading::now();
        for (passed, left) in [(Duration::ZERO, DAY), (60 * SECOND, DAY - 60 * SECOND), (DAY, DAY - DAY / 100)] {
            let now = claimed.after(passed);
            assert_eq!(Expiry::of_new_record(claimed.monotonic, now, DAY).left(now), Some(left), "{passed:?}");
        }
    }
}
