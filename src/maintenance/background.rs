//! A task that repeats its work until it is stopped.

use std::{fmt, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

/// The shortest and the longest interval. The time plus a longer one could overflow.
const INTERVALS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(10 * 366 * 24 * 3600)];

/// A task that repeats its work until it is stopped. Dropping this does not stop it.
pub(super) struct Background {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Background {
    /// Does the work at once and after each interval, within [`INTERVALS`]. The work gets a token that is cancelled when it has to stop.
    pub(super) fn spawn<F>(every: Duration, mut work: impl FnMut(CancellationToken) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send,
    {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let [shortest, longest] = INTERVALS;
            let mut ticks = interval(every.clamp(shortest, longest));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
                work(stopped.clone()).await;
            }
        });
        Self { stop, task }
    }

    /// Stops the task and waits until it has ended. A panic is logged with `name`.
    pub(super) async fn stop(self, name: &'static str) {
        self.stop.cancel();
        if self.task.await.is_err() {
            tracing::warn!("{name} panicked");
        }
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("stopped", &self.stop.is_cancelled()).finish_non_exhaustive()
    }
}
