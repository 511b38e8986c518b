use std::{fmt, time::Duration};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    Store,
    telemetry::{self, Chain},
};

/// Deletes expired records in the background (FUN-15 section 2.7).
///
/// Correctness does not depend on it: an expired record is no record, swept or not. It keeps the table small. Several
/// processes may sweep one table.
///
/// ```
/// use std::time::Duration;
/// use tonic_idempotency::{MemoryStore, Sweeper};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// // Default: once an hour, a thousand records at a time.
/// let sweeping = Sweeper::new(MemoryStore::new()).spawn();
/// sweeping.stop().await;
///
/// // Customised.
/// let sweeping = Sweeper::new(MemoryStore::new()).interval(Duration::from_secs(60)).batch(100).spawn();
/// sweeping.stop().await;
/// # });
/// ```
#[derive(Clone, Debug)]
#[must_use = "a sweeper does nothing until `spawn` or `sweep`"]
pub struct Sweeper<S> {
    store: S,
    interval: Duration,
    batch: u32,
}

impl<S: Store> Sweeper<S> {
    /// A sweeper of this store.
    pub fn new(store: S) -> Self {
        Self { store, interval: Duration::from_secs(60 * 60), batch: 1000 }
    }

    /// The time between two sweeps, at least one millisecond. Defaults to 1 hour.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_millis(1));
        self
    }

    /// How many records are deleted at once, at least one: few enough not to hold locks for long. Defaults to 1,000.
    pub fn batch(mut self, batch: u32) -> Self {
        self.batch = batch.max(1);
        self
    }

    /// Sweeps at once and again after each interval, in a task of its own, until stopped.
    pub fn spawn(self) -> Sweeping {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(self.interval);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
                if let Some(Err(error)) = stopped.run_until_cancelled(self.sweep()).await {
                    tracing::warn!(error = %Chain(&error), "a sweep failed; the next one follows at its time");
                }
            }
        });
        Sweeping { stop, task }
    }

    /// Deletes all that has expired, batch after batch, and returns how much that was.
    ///
    /// # Errors
    ///
    /// [`StoreError`](crate::StoreError) where the store does not answer; what was deleted before stays deleted.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops after some batch.
    pub async fn sweep(&self) -> Result<u64, crate::StoreError> {
        let mut deleted = 0;
        loop {
            let swept = self.store.sweep(self.batch).await?;
            deleted += swept;
            if swept < u64::from(self.batch) {
                break;
            }
        }
        if deleted > 0 {
            telemetry::swept(deleted);
        }
        Ok(deleted)
    }
}

/// A [`Sweeper`] at work. Dropped, it goes on; [`stop`](Self::stop) ends it.
pub struct Sweeping {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Sweeping {
    /// Stops sweeping, and waits until it has stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops sweeping all the same.
    pub async fn stop(self) {
        self.stop.cancel();
        if self.task.await.is_err() {
            tracing::warn!("the sweep had panicked");
        }
    }
}

impl fmt::Debug for Sweeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweeping").field("stopped", &self.stop.is_cancelled()).finish_non_exhaustive()
    }
}
