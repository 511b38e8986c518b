//! The command line.

use clap::{Parser, ValueEnum};

/// Measures what the layer costs, compared with what a user would use instead, and writes results/benchmarks.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The parts to measure. Defaults to all of them; a report of some is printed, and results/benchmarks.md stays as it is.
    pub(crate) parts: Vec<Part>,
    /// Fail if a goal is missed.
    #[arg(long, conflicts_with = "smoke")]
    pub(crate) check: bool,
    /// Run each measurement for an instant, to see that all of them work. The figures mean nothing, and are printed only.
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Measure what has goals in `database`, in about two minutes, and print the goals.
    #[arg(long, conflicts_with = "check")]
    pub(crate) goals: bool,
    /// Count the allocations of calls of `database`, and the memory of calls in flight, in seconds, and print them.
    #[arg(long, conflicts_with_all = ["check", "goals", "profile"])]
    pub(crate) allocations: bool,
    /// Profile by `perf` what has goals in `database`, met or missed. Without this, a run of everything profiles what misses them.
    #[arg(long)]
    pub(crate) profile: bool,
}

/// A part of the benchmarks, which is a section of the report. In the order of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    Hash,
    Hostile,
    Layer,
    Database,
    Operations,
    Inbox,
    #[cfg(feature = "drivers")]
    Drivers,
}

impl Args {
    /// Returns the parts to measure, in order, each once.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts = match self.parts.is_empty() {
            true if self.goals || self.allocations || self.profile => vec![Part::Database],
            true => Part::value_variants().to_vec(),
            false => self.parts.clone(),
        };
        parts.sort();
        parts.dedup();
        parts
    }

    /// Returns whether the report is to replace results/benchmarks.md.
    pub(crate) fn is_whole(&self) -> bool {
        self.parts.is_empty() && !(self.smoke || self.goals || self.allocations || self.profile)
    }
}

impl Part {
    /// Returns its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Hostile => "hostile",
            Self::Layer => "layer",
            Self::Database => "database",
            Self::Inbox => "inbox",
            Self::Operations => "operations",
            #[cfg(feature = "drivers")]
            Self::Drivers => "drivers",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &[&str]) -> Args {
        Args::try_parse_from([&["benchmarks"], line].concat()).expect("the arguments are valid")
    }

    #[test]
    fn parts_are_measured_in_order_and_once() {
        assert_eq!(args(&[]).parts(), Part::value_variants());
        assert_eq!(args(&["layer", "hash", "layer"]).parts(), [Part::Hash, Part::Layer]);
        for line in ["--goals", "--allocations", "--profile"] {
            assert_eq!(args(&[line]).parts(), [Part::Database]);
        }
        for part in Part::value_variants() {
            assert_eq!(args(&[part.name()]).parts(), [*part]);
        }
    }

    #[test]
    fn only_a_whole_run_replaces_the_report() {
        assert!(args(&[]).is_whole() && args(&["--check"]).is_whole());
        for line in ["--smoke", "hash", "--goals", "--allocations", "--profile"] {
            assert!(!args(&[line]).is_whole(), "{line}");
        }
    }

    #[test]
    fn figures_that_mean_nothing_are_not_checked() {
        assert!(Args::try_parse_from(["benchmarks", "--smoke", "--check"]).is_err());
    }
}
