use clap::{Parser, ValueEnum};

/// Measures what the layer costs against what a user would use instead, and writes docs/benchmarks.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// What to measure. Defaults to everything; a part alone is printed, and leaves docs/benchmarks.md as it is.
    pub(crate) parts: Vec<Part>,
    /// Each measurement for an instant, to see that all of them work. Their figures mean nothing, and are not written down.
    #[arg(long)]
    pub(crate) smoke: bool,
}

/// A part of the benchmarks: one section of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Database,
    Growth,
    Hash,
    Layer,
}
