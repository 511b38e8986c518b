//! Waits for a condition.

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// The time in which a condition must come true.
const PATIENCE: Duration = Duration::from_secs(120);

const INTERVAL: Duration = Duration::from_millis(20);

/// Waits until `look` returns a value.
///
/// # Panics
///
/// It returns none for a minute.
pub(crate) async fn eventually<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(INTERVAL).await;
    }
}
