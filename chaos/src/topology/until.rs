//! Waits with a bound.

use std::time::Duration;

use tokio::time::{self, Instant};

use crate::error::Error;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until a condition is true.
pub(super) async fn until<F: Future<Output = bool>>(
    patience: Duration,
    otherwise: &str,
    condition: impl Fn() -> F,
) -> Result<(), Error> {
    let deadline = Instant::now() + patience;
    while !condition().await {
        if Instant::now() > deadline {
            return Err(format!("{otherwise} within {patience:?}").into());
        }
        time::sleep(PAUSE).await;
    }
    Ok(())
}
