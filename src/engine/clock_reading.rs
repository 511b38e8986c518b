//! Points in time, by two clocks.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A point in time. The monotonic clock stands still while the machine sleeps, and the other one is set: of two moments, the
/// clock that says more is believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) monotonic: Instant,
    wall: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// How much time has passed between the two, at least as either clock says; `None` where a clock went back, and nobody
    /// knows.
    pub(crate) fn until(self, later: Self) -> Option<Duration> {
        let monotonic = later.monotonic.checked_duration_since(self.monotonic)?;
        let wall = later.wall.duration_since(self.wall).ok()?;
        Some(monotonic.max(wall))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn full_matrix() {
        let then = Moment::now();
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
            assert_eq!(then.until(Moment { monotonic, wall }), passed, "{monotonic:?} {wall:?}");
        }
    }
}
