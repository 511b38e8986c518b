//! Waits for a condition.

use std::time::Duration;

use tokio::time::{interval, timeout};

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
///
/// # Panics
///
/// The condition does not hold within a minute.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let mut looks = interval(Duration::from_millis(20));
    let waiting = async {
        while !condition().await {
            looks.tick().await;
        }
    };
    if timeout(PATIENCE, waiting).await.is_err() {
        panic!("not within {PATIENCE:?}: {what}");
    }
}
