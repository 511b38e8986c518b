//! The command line.

use clap::{Parser, ValueEnum};

use crate::{
    database::{Extent, Profiled},
    layer::ServerKind,
};

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
    /// Measure the rows of `database` that have goals, with the contenders that these compare, in about two minutes, and print the
    /// goals.
    #[arg(long, conflicts_with = "check")]
    pub(crate) goals: bool,
    /// Count the allocations of calls of `database` alone, and the memory of calls in flight, in half a minute, and print them.
    #[arg(long, conflicts_with_all = ["check", "goals", "profile"])]
    pub(crate) allocations: bool,
    /// Profile the contender of each goal of `database`, met or missed, with `perf`, and print where its time goes. Without this,
    /// a run of everything profiles those of missed goals.
    #[arg(long)]
    pub(crate) profile: bool,
    /// Run as a server that another process measures.
    #[arg(long, hide = true)]
    pub(crate) layer_server: Option<ServerKind>,
}

/// A part of the benchmarks, which is a section of the report. In the order of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    Hash,
    Hostile,
    Layer,
    Database,
    #[cfg(feature = "drivers")]
    Drivers,
    Growth,
}

impl Args {
    /// Returns how much of `database` is measured.
    pub(crate) fn extent(&self) -> Extent {
        match self.goals {
            _ if self.allocations => Extent::Allocations,
            true => Extent::Goals,
            false => Extent::All,
        }
    }

    /// Returns which contenders of `database` are profiled.
    pub(crate) fn profiled(&self) -> Profiled {
        match self.goals {
            _ if self.profile => Profiled::All,
            true => Profiled::None,
            false => Profiled::Missed,
        }
    }

    /// Returns the parts to measure, in order, each once.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts = match self.parts.is_empty() {
            true if self.allocations || self.goals || self.profile => vec![Part::Database],
            true => Part::value_variants().to_vec(),
            false => self.parts.clone(),
        };
        parts.sort();
        parts.dedup();
        parts
    }

    /// Returns whether the report is to replace results/benchmarks.md.
    pub(crate) fn is_whole(&self) -> bool {
        self.parts.is_empty() && !self.allocations && !self.smoke && !self.goals && !self.profile
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
            #[cfg(feature = "drivers")]
            Self::Drivers => "drivers",
            Self::Growth => "growth",
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
        assert_eq!(args(&["growth", "hash", "growth"]).parts(), [Part::Hash, Part::Growth]);
    }

    #[test]
    fn goals_and_profiles_are_those_of_the_database() {
        assert_eq!(args(&["--goals"]).parts(), [Part::Database]);
        assert_eq!(args(&["--profile"]).parts(), [Part::Database]);
        assert_eq!(args(&["--allocations"]).parts(), [Part::Database]);
        assert_eq!(args(&["database", "--goals"]).parts(), [Part::Database]);
    }

    #[test]
    fn only_a_whole_run_replaces_the_report() {
        assert!(args(&[]).is_whole());
        assert!(args(&["--check"]).is_whole());
        assert!(!args(&["--smoke"]).is_whole());
        assert!(!args(&["hash"]).is_whole());
        assert!(!args(&["--goals"]).is_whole());
        assert!(!args(&["--profile"]).is_whole());
        assert!(!args(&["--allocations"]).is_whole());
    }

    #[test]
    fn the_name_of_a_part_is_its_argument() {
        for part in Part::value_variants() {
            assert_eq!(args(&[part.name()]).parts(), [*part]);
        }
    }

    #[test]
    fn figures_that_mean_nothing_are_not_checked() {
        assert!(Args::try_parse_from(["benchmarks", "--smoke", "--check"]).is_err());
    }
}
