use std::{
    future::Future,
    time::{Duration, Instant},
};

/// How long a condition may take to come true before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

const INTERVAL: Duration = Duration::from_millis(20);

/// Waits until `look` finds something.
///
/// # Panics
///
/// It does not, for a minute.
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
