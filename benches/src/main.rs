//! Measures what the layer costs, compared with what a user would use instead, and writes results/benchmarks.md.
//!
//! | module | measures |
//! |---|---|
//! | `hash` | the request hash, by message shape |
//! | `hostile` | messages that are made to be costly |
//! | `layer` | the layer alone, without a database |
//! | `database` | claim, complete and replay on PostgreSQL |
//! | `operations` | operations that run at once |
//! | `inbox` | a consumer of NATS JetStream |
//! | `drivers` | the same with each driver (feature `drivers`) |

mod args;
mod context;
mod database;
#[cfg(feature = "drivers")]
mod drivers;
mod format;
mod hash;
mod hostile;
mod inbox;
mod layer;
mod operations;
mod report;
mod section;
mod spread;
mod unary;

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use clap::Parser as _;

use crate::{
    args::{Args, Part},
    context::Context,
    report::{Report, Setting},
    section::Section,
};

/// Why a benchmark could not run, as a sentence for its user.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    let args = Args::parse();
    if args.is_whole() && cfg!(debug_assertions) {
        return Err(
            "a debug build says nothing about speed: use cargo run --release -p benchmarks --features drivers".into()
        );
    }
    if args.is_whole() && !cfg!(feature = "drivers") {
        return Err("results/benchmarks.md has a section on drivers: add --features drivers".into());
    }
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let setting = Setting::now(root);
    let context = Context::new(args.smoke);
    let mut sections = Vec::new();
    for part in args.parts() {
        sections.push(measure(part, &context.of(part.name()), &args).await?);
    }
    let report = Report { setting, took: context.elapsed(), sections };
    if args.is_whole() {
        report.replace(&root.join("results/benchmarks.md"))?;
        context.progress("results/benchmarks.md has been written");
    } else {
        io::stdout().write_all(report.to_markdown().as_bytes())?;
        context.progress("done; results/benchmarks.md is unchanged");
    }
    if args.smoke {
        return Ok(ExitCode::SUCCESS);
    }
    let missed = report.missed().count();
    for goal in report.missed() {
        context.progress(&format!("MISSED: {goal}"));
    }
    context.progress(&format!("goals missed: {missed} of {}", report.goals().count()));
    Ok(if args.check && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn measure(part: Part, context: &Context, args: &Args) -> Result<Section, Error> {
    match part {
        Part::Database => database::measure(context, args).await,
        #[cfg(feature = "drivers")]
        Part::Drivers => drivers::measure(context).await,
        Part::Hash => hash::measure(context).await,
        Part::Hostile => hostile::measure(context).await,
        Part::Layer => layer::measure(context),
        Part::Operations => operations::measure(context).await,
        Part::Inbox => inbox::measure(context).await,
    }
}
