//! Deletes expired records.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::background::Background;
use crate::{
    store::{Store, StoreError},
    telemetry::{self, Chain},
};

/// Deletes expired records in the background.
///
/// Correctness does not depend on it: an expired record is no record, swept or not. It keeps the table small. Several
/// processes may sweep one table.
///
/// ```
/// use std::time::Duration;
/// use tonic_idempotency::{store::MemoryStore, maintenance::Sweeper};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// // Default: once an hour, a thousand records at a time, and after these a rest for as long as they took.
/// let sweeping = Sweeper::new(MemoryStore::new()).spawn();
/// sweeping.stop().await;
///
/// // Customised.
/// let sweeping = Sweeper::new(MemoryStore::new()).interval(Duration::from_secs(60)).batch(100).rest(4.0).spawn();
/// sweeping.stop().await;
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
    /// A sweeper of this store.
    pub fn new(store: S) -> Self {
        Self { store, interval: Duration::from_secs(60 * 60), batch: 1000, rest: 1.0 }
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

    /// How long it rests after each batch, as a multiple of the time that the batch took: from 0, which is not at all, to 1,000.
    /// Of a store that is busy, and so takes longer, it then asks less; with 4.0 it works a fifth of the time at most. Defaults to 1.
    ///
    /// What is not a number counts as the default.
    pub fn rest(mut self, rest: f64) -> Self {
        self.rest = if rest.is_nan() { 1.0 } else { rest.clamp(0.0, 1000.0) };
        self
    }

    /// Sweeps at once and again after each interval, in a task of its own, until stopped.
    pub fn spawn(self) -> SweeperHandle {
        let sweeper = Arc::new(self);
        SweeperHandle {
            background: Background::spawn(sweeper.interval, move |stop| {
                let sweeper = Arc::clone(&sweeper);
                async move {
                    if let Some(Err(error)) = stop.run_until_cancelled(sweeper.sweep()).await {
                        tracing::warn!(error = %Chain(&error), "a sweep failed; the next one follows at its time");
                    }
                }
            }),
        }
    }

    /// Deletes all that has expired, batch after batch with a [`rest`](Self::rest) in between, and returns how much that was.
    ///
    /// # Errors
    ///
    /// [`StoreError`](StoreError) where the store does not answer; what was deleted before stays deleted.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops after some batch.
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
        if deleted > 0 {
            telemetry::swept(deleted);
        }
        Ok(deleted)
    }
}

/// A [`Sweeper`] at work. Dropped, it goes on; [`stop`](Self::stop) ends it.
#[derive(Debug)]
pub struct SweeperHandle {
    background: Background,
}

impl SweeperHandle {
    /// Stops sweeping, and waits until it has stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops sweeping all the same.
    pub async fn stop(self) {
        self.background.stop("the sweep").await;
    }
}
