//! Measures the write-ahead log that a server writes while calls go on.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use crate::{
    Error,
    load::{Figures, Load},
    table::Table,
};

/// The bytes that the server has written to its log.
const BYTES: &str = "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8";

/// Calls, and what the server wrote to its log meanwhile.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) figures: Figures,
    bytes: f64,
    took: Duration,
}

impl Logged {
    /// Calls for this time.
    pub(crate) async fn run_for(table: &Table, load: &Load, time: Duration) -> Result<Self, Error> {
        let wait = async {
            tokio::time::sleep(time).await;
            Ok(())
        };
        Ok(Self::run_during(table, load, wait).await?.0)
    }

    /// Calls until the work has ended.
    pub(crate) async fn run_during<T>(
        table: &Table,
        load: &Load,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<(Self, T), Error> {
        let (before, begun) = (table.number(BYTES).await?, Instant::now());
        let (figures, done) = load.run_during(work).await?;
        let (bytes, took) = ((table.number(BYTES).await? - before) as f64, begun.elapsed());
        Ok((Self { figures, bytes, took }, done))
    }

    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.bytes / 1e6 / self.took.as_secs_f64()
    }

    pub(crate) fn kilobytes_per_call(&self) -> f64 {
        self.bytes / 1e3 / self.figures.calls() as f64
    }
}
