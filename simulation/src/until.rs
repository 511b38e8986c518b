//! Waiting until something is so.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The time between two looks.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Waits until something is so, at most for this time.
pub(crate) async fn until(is_so: impl Fn() -> bool, longest: Duration) {
    let ends = Instant::now() + longest;
    while !is_so() && Instant::now() < ends {
        sleep(BETWEEN_LOOKS).await;
    }
}
