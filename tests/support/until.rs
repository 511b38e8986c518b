//! Waits for a condition.

use std::time::Duration;

use tokio::time::{interval, timeout};

/// The time in which a condition must come true.
const PATIENCE: Duration = Duration::from_secs(120);

/// The interval between two checks: short enough to lose no time, and long enough to leave the processor to the work.
const INTERVAL: Duration = Duration::from_millis(2);

/// Waits until a condition holds.
///
/// # Panics
///
/// The condition does not hold within 120 s.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let mut looks = interval(INTERVAL);
    let waiting = async {
        while !condition().await {
            looks.tick().await;
        }
    };
    if timeout(PATIENCE, waiting).await.is_err() {
        panic!("not within {PATIENCE:?}: {what}");
    }
}
