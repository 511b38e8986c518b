//! Waits for the next attempt of a call whose transaction has lost.

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::engine::{attempts::Attempts, shared::state::Engine};

/// Waits until the next attempt may begin, after one whose handler had to end at `ends`. Returns `None` if there is to be none: there were as
/// many as there may be, the time of the handler is up, the server shuts down, or the client has gone and `disconnected` says so.
pub(in crate::engine) async fn wait(
    engine: &Engine,
    attempts: Attempts,
    ends: Instant,
    disconnected: Option<&CancellationToken>,
) -> Option<Attempts> {
    let (attempts, next) = attempts.next(ends)?;
    let shutting_down = engine.tracker.shutting_down();
    if next > Instant::now() {
        let pause = shutting_down.run_until_cancelled(sleep_until(next));
        match disconnected {
            Some(disconnected) => drop(disconnected.run_until_cancelled(pause).await),
            None => drop(pause.await),
        }
    }
    let goes_on = !shutting_down.is_cancelled() && !disconnected.is_some_and(CancellationToken::is_cancelled);
    goes_on.then_some(attempts)
}
