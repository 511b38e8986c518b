//! The clock that all processes of the machine share, and nothing sets.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine was started.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    // It is positive, and its nanoseconds are less than a second.
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
