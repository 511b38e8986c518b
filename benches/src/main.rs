//! Measures what the layer costs, compared with what a user would use instead, and writes results/benchmarks.md.
//!
//! | module | measures |
//! |---|---|
//! | `hash` | the request hash, by message shape |
//! | `layer` | the layer, without a database |
//! | `database` | claim, complete and replay on PostgreSQL |
//! | `operations` | operations that run at once |
//! | `conflicts` | transactions that lose against each other |
//! | `sealed` | records that only the holder of a key reads |
//! | `operate` | the program's statements on a large table |
//! | `inbox` | a consumer of NATS JetStream |
//! | `drivers` | the same with each driver (feature `drivers`) |

mod conflicts;
mod context;
mod database;
#[cfg(feature = "drivers")]
mod drivers;
mod error;
mod hash;
mod inbox;
mod layer;
mod operate;
mod operations;
mod report;
mod sealed;
mod unary;

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use clap::{Parser, ValueEnum};

use crate::{context::Context, error::Error, report::Section};

/// Measures what the layer costs, compared with what a user would use instead, and writes results/benchmarks.md.
#[derive(Debug, Parser)]
struct Args {
    /// The parts to measure. Defaults to all of them; a report of some is printed, and results/benchmarks.md stays as it is.
    parts: Vec<Part>,
    /// Fail if a goal is missed.
    #[arg(long, conflicts_with = "smoke")]
    check: bool,
    /// Run each measurement for an instant, to see that all of them work. The figures mean nothing, and are printed only.
    #[arg(long)]
    smoke: bool,
    /// Measure what has goals in `database`, in about two minutes, and print the goals.
    #[arg(long, conflicts_with = "check")]
    goals: bool,
}

/// A part of the benchmarks, which is a section of the report. In the order of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Hash,
    Layer,
    Database,
    Operations,
    Conflicts,
    Sealed,
    Operate,
    Inbox,
    #[cfg(feature = "drivers")]
    Drivers,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    let Args { parts, check, smoke, goals } = Args::parse();
    // A report of everything replaces that of an earlier run.
    let is_whole = parts.is_empty() && !smoke && !goals;
    if is_whole && (cfg!(debug_assertions) || !cfg!(feature = "drivers")) {
        return Err("results/benchmarks.md is of cargo run --release -p benchmarks --features drivers".into());
    }
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let (mut setting, context) = (report::setting(root), Context::new(smoke));
    let is_chosen =
        |part: &Part| if goals { *part == Part::Database } else { parts.is_empty() || parts.contains(part) };
    let mut sections = Vec::new();
    for part in Part::value_variants().iter().filter(|part| is_chosen(part)) {
        context.progress(&format!("{part:?}"));
        sections.push(measure(*part, &context, goals).await?);
    }
    setting.push(["took, seconds".to_owned(), context.elapsed().as_secs().to_string()]);
    let report = report::markdown(setting, &sections);
    if is_whole {
        fs::write(root.join("results/benchmarks.md"), report)?;
    } else {
        io::stdout().write_all(report.as_bytes())?;
    }
    let missed: Vec<_> = sections.iter().flat_map(|section| &section.goals).filter(|goal| !goal.is_met()).collect();
    for goal in missed.iter().filter(|_| !smoke) {
        context.progress(&format!("MISSED: {goal}"));
    }
    Ok(if check && !missed.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn measure(part: Part, context: &Context, only_goals: bool) -> Result<Section, Error> {
    match part {
        Part::Database => database::measure(context, only_goals).await,
        #[cfg(feature = "drivers")]
        Part::Drivers => drivers::measure(context).await,
        Part::Hash => hash::measure(context),
        Part::Layer => layer::measure(context),
        Part::Operations => operations::measure(context).await,
        Part::Conflicts => conflicts::measure(context).await,
        Part::Sealed => sealed::measure(context).await,
        Part::Operate => operate::measure(context).await,
        Part::Inbox => inbox::measure(context).await,
    }
}
