//! The command line.

use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measures large tables of keys. Starts a private PostgreSQL server on the disk of the temporary directory, and removes it.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The measurements to run. By default all of them, one after the other.
    measurements: Vec<Measurement>,
    /// The number of records: those that are moved, that are in the large table, or that are swept. By default
    /// those of the goals: 10 million; for `claims` 100 million, or 30 if the disk does not hold more.
    #[arg(long)]
    rows: Option<u64>,
    /// How long each measurement of calls takes, in seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// The number of concurrent callers.
    #[arg(long, default_value_t = 8)]
    pub(crate) callers: usize,
    /// The number of partitions.
    #[arg(long, default_value_t = 16)]
    pub(crate) partitions: u16,
    /// A setting of the server, `name=value`, beside those of the measurement; may be given several times. The report names it.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Write each report into results/large-tables.md, too, as soon as it is there.
    #[arg(long)]
    pub(crate) write: bool,
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measurement {
    /// The way of a table in use to partitions.
    Way,
    /// Claims in a large table, compared with a small one.
    Claims,
    /// A sweep of many records.
    Sweep,
}

impl Measurement {
    const ALL: [Self; 3] = [Self::Way, Self::Claims, Self::Sweep];
}

impl Args {
    pub(crate) fn measurements(&self) -> &[Measurement] {
        if self.measurements.is_empty() { &Measurement::ALL } else { &self.measurements }
    }

    pub(crate) fn rows(&self, default: u64) -> u64 {
        self.rows.unwrap_or(default)
    }

    /// Returns whether the number of rows is the default.
    pub(crate) fn has_default_rows(&self) -> bool {
        self.rows.is_none()
    }

    pub(crate) fn time(&self, default: u64) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(default).max(1))
    }
}
