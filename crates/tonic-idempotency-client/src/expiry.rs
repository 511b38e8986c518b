//! A time after which a call is not sent any more, by two clocks.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The time that stands for none: one that a clock can still add.
const LONGEST: Duration = Duration::from_secs(86_400 * 365);

/// A time after which a call is not sent any more. It has come when one of two clocks says so: that of timers stands still while the machine
/// sleeps, and the wall clock may be set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    by_timers: Instant,
    by_wall_clock: SystemTime,
}

impl Expiry {
    /// The time after so long a time. One that is too long for a clock is as good as none.
    pub(crate) fn after(time: Duration) -> Self {
        let time = time.min(LONGEST);
        Self { by_timers: Instant::now() + time, by_wall_clock: SystemTime::now() + time }
    }

    /// The time that the wall clock shows then.
    pub(crate) fn at(time: SystemTime) -> Self {
        let left = time.duration_since(SystemTime::now()).unwrap_or_default();
        Self { by_wall_clock: time, ..Self::after(left) }
    }

    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            by_timers: self.by_timers.min(other.by_timers),
            by_wall_clock: self.by_wall_clock.min(other.by_wall_clock),
        }
    }

    /// The time for a timer.
    pub(crate) fn by_timers(self) -> Instant {
        self.by_timers
    }

    pub(crate) fn has_come(self) -> bool {
        self.left().is_zero()
    }

    /// The time that is left.
    pub(crate) fn left(self) -> Duration {
        let by_wall_clock = self.by_wall_clock.duration_since(SystemTime::now()).unwrap_or_default();
        self.by_timers.saturating_duration_since(Instant::now()).min(by_wall_clock)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Time that is told only by timers passes here: the wall clock is set back by it, as it were. A machine that slept is the reverse.
    #[tokio::test(start_paused = true)]
    async fn comes_with_either_clock() {
        let expiry = Expiry::after(MINUTE);
        assert!(!expiry.has_come());
        let slept = Expiry { by_wall_clock: SystemTime::now(), ..expiry };
        assert!(slept.has_come() && slept.min(expiry).has_come() && expiry.min(slept).has_come());
        assert!(Expiry::at(SystemTime::now() - MINUTE).has_come());
        advance(MINUTE).await;
        assert!(expiry.has_come(), "the wall clock was set back");
        assert!(!Expiry::after(Duration::MAX).has_come());
    }
}
