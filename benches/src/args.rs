use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::layer::ServerKind;

/// Measures what the layer costs against what a user would use instead, and writes docs/benchmarks.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// What to measure. Defaults to everything; a part alone is printed, and leaves docs/benchmarks.md as it is.
    pub(crate) parts: Vec<Part>,
    /// Fails if a goal is missed.
    #[arg(long, conflicts_with = "smoke")]
    pub(crate) check: bool,
    /// Each measurement for an instant, to see that all of them work. Their figures mean nothing, and are not written down.
    #[arg(long)]
    pub(crate) smoke: bool,
    /// To be a server that is measured by another process.
    #[arg(long, hide = true)]
    pub(crate) layer_server: Option<ServerKind>,
}

/// A part of the benchmarks: one section of the report. In the order in which they are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    Hash,
    Layer,
    Database,
    Growth,
}

impl Args {
    /// What to measure, in order, each once.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts = if self.parts.is_empty() { Part::value_variants().to_vec() } else { self.parts.clone() };
        parts.sort();
        parts.dedup();
        parts
    }

    /// Whether what comes of it is worth to be written down.
    pub(crate) fn is_whole(&self) -> bool {
        self.parts.is_empty() && !self.smoke
    }
}

impl Part {
    /// About how long it takes.
    pub(crate) fn estimate(self) -> Duration {
        Duration::from_secs(match self {
            Self::Hash | Self::Layer => 60,
            Self::Database => 280,
            Self::Growth => 210,
        })
    }

    /// As it is called on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Layer => "layer",
            Self::Database => "database",
            Self::Growth => "growth",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &[&str]) -> Args {
        Args::try_parse_from([&["benchmarks"], line].concat()).expect("these are arguments")
    }

    #[test]
    fn parts_are_measured_in_order_and_once() {
        assert_eq!(args(&[]).parts(), Part::value_variants());
        assert_eq!(args(&["growth", "hash", "growth"]).parts(), [Part::Hash, Part::Growth]);
    }

    #[test]
    fn only_a_whole_run_is_written_down() {
        assert!(args(&[]).is_whole());
        assert!(args(&["--check"]).is_whole());
        assert!(!args(&["--smoke"]).is_whole());
        assert!(!args(&["hash"]).is_whole());
    }

    #[test]
    fn a_part_is_called_what_its_name_says() {
        for part in Part::value_variants() {
            assert_eq!(args(&[part.name()]).parts(), [*part]);
        }
    }

    #[test]
    fn figures_that_mean_nothing_are_not_checked() {
        assert!(Args::try_parse_from(["benchmarks", "--smoke", "--check"]).is_err());
    }
}
