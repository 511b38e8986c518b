//! Deletes expired records.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::background::Background;
use crate::{
    store::{Store, StoreError},
    telemetry::{self, Chain, rarely},
};

/// Deletes expired records in the background.
///
/// Sweeping keeps the table small. Correctness does not depend on it: an expired record has no effect, even before it
/// is deleted. Several processes may sweep the same table.
///
/// ```
/// use std::time::Duration;
/// use tonic_idempotency::{store::MemoryStore, maintenance::Sweeper};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// // Default: once an hour, in batches of 250 records, with pauses twice as long as the batches.
/// let sweeper = Sweeper::new(MemoryStore::new()).spawn();
/// sweeper.stop().await;
///
/// // Customised.
/// let sweeper = Sweeper::new(MemoryStore::new()).interval(Duration::from_secs(60)).batch(100).rest(4.0).spawn();
/// sweeper.stop().await;
/// # });
/// ```
#[derive(Clone, Debug)]
#[must_use = "a sweeper does nothing until `spawn` or `sweep`"]
pub struct Sweeper<S> {
    store: S,
    interval: Duration,
    batch: u32,
    rest: f64,
}

impl<S: Store> Sweeper<S> {
    /// Creates a sweeper for this store.
    pub fn new(store: S) -> Self {
        Self { store, interval: Duration::from_secs(60 * 60), batch: 250, rest: 2.0 }
    }

    /// Sets the time between two sweeps, from 1 millisecond to 10 years. Defaults to 1 hour.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets the maximum number of records that one batch deletes, at least 1. With larger batches a sweep is faster, and calls
    /// beside it wait longer: one batch occupies a processor of the server, and the disk that commits wait for. Defaults to 250.
    pub fn batch(mut self, batch: u32) -> Self {
        self.batch = batch.max(1);
        self
    }

    /// Sets the pause after each batch, as a multiple of the time that the batch took: from 0 (no pause) to 1,000. A
    /// busy store, which takes longer, thus gets longer pauses. With 4.0 the sweeper works at most a fifth of the time.
    /// Defaults to 2: at most a third.
    ///
    /// NaN counts as the default.
    pub fn rest(mut self, rest: f64) -> Self {
        self.rest = if rest.is_nan() { 2.0 } else { rest.clamp(0.0, 1000.0) };
        self
    }

    /// Spawns a task that sweeps at once and after each interval, until it is stopped.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn spawn(self) -> SweeperHandle {
        let sweeper = Arc::new(self);
        SweeperHandle {
            background: Background::spawn(sweeper.interval, move |stop| {
                let sweeper = Arc::clone(&sweeper);
                async move {
                    if let Some(Err(error)) = stop.run_until_cancelled(sweeper.sweep()).await
                        && let Some(sweeps) = rarely("sweep_failed", error.kind().as_str())
                    {
                        tracing::warn!(error = %Chain(&error), sweeps, "a sweep failed; trying again after the interval");
                    }
                }
            }),
        }
    }

    /// Deletes all expired records, in batches with a [`rest`](Self::rest) in between. Returns the number of deleted
    /// records.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store is unavailable. Batches deleted before that stay deleted.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no further batch is started.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let mut deleted = 0;
        loop {
            let started = Instant::now();
            let swept = self.store.sweep(self.batch).await?;
            deleted += swept;
            if swept < u64::from(self.batch) {
                break;
            }
            sleep(started.elapsed().mul_f64(self.rest)).await;
        }
        telemetry::swept(deleted);
        Ok(deleted)
    }
}

/// A handle to a running [`Sweeper`]. Dropping it does not stop the sweeper; [`stop`](Self::stop) does.
#[derive(Debug)]
pub struct SweeperHandle {
    background: Background,
}

impl SweeperHandle {
    /// Stops the sweeper, and waits until it has stopped.
    ///
    /// # Cancel safety
    ///
    /// The sweeper stops even if the future is dropped.
    pub async fn stop(self) {
        self.background.stop("the sweeper").await;
    }
}
