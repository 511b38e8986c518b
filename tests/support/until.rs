use std::time::Duration;

use tokio::time::{interval, timeout};

/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked at: often enough to lose no time, and seldom enough to leave the time to what is waited for.
const INTERVAL: Duration = Duration::from_millis(2);

/// Waits until a condition holds.
///
/// # Panics
///
/// It does not hold within half a minute.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let mut looks = interval(INTERVAL);
    let waiting = async {
        while !condition().await {
            looks.tick().await;
        }
    };
    if timeout(PATIENCE, waiting).await.is_err() {
        panic!("waited in vain: {what}");
    }
}
