//! The time, read off two clocks.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The time, read off two clocks. The monotonic clock stands still while the machine sleeps, and the wall clock can be set. If
/// they measure different intervals, the longer one counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    pub(in crate::engine) monotonic: Instant,
    wall: SystemTime,
}

impl ClockReading {
    pub(in crate::engine) fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// Returns the time between two readings, by the clock that measures more; `None` if a clock went back, because then neither
    /// can be trusted.
    pub(in crate::engine) fn until(self, later: Self) -> Option<Duration> {
        let monotonic = later.monotonic.checked_duration_since(self.monotonic)?;
        let wall = later.wall.duration_since(self.wall).ok()?;
        Some(monotonic.max(wall))
    }

    /// The reading when this time has passed.
    #[cfg(test)]
    pub(in crate::engine) fn after(self, time: Duration) -> Self {
        Self { monotonic: self.monotonic + time, wall: self.wall + time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn full_matrix() {
        let then = ClockReading::now();
        let (instant, wall) = (then.monotonic, then.wall);
        for (monotonic, wall, passed) in [
            (instant, wall, Some(Duration::ZERO)),
            (instant + SECOND, wall + SECOND, Some(SECOND)),
            // The machine slept.
            (instant + SECOND, wall + 3600 * SECOND, Some(3600 * SECOND)),
            // The clock was set back by less than what has passed, or time is a test's own.
            (instant + 60 * SECOND, wall + SECOND, Some(60 * SECOND)),
            (instant + SECOND, wall, Some(SECOND)),
            // It was set back by more.
            (instant + 60 * SECOND, wall - SECOND, None),
            (instant - SECOND, wall + SECOND, None),
        ] {
            assert_eq!(then.until(ClockReading { monotonic, wall }), passed, "{monotonic:?} {wall:?}");
        }
    }
}
