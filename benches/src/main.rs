//! What the layer costs, against what a user would use instead: measured in one run, and written down.
//!
//! | module | measures |
//! |---|---|
//! | `hash` | the request hash, by message shape |
//! | `layer` | the layer itself, without a database |
//! | `database` | claim, complete and replay on PostgreSQL |
//! | `growth` | large tables, a sweep while calls run |

mod args;
mod context;
mod database;
mod format;
mod growth;
mod hash;
mod layer;
mod report;
mod section;
mod spread;

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use clap::Parser as _;

use crate::{
    args::{Args, Part},
    context::Context,
    report::{Report, Setting},
    section::Section,
};

/// Why a benchmark could not be run: a sentence for a person.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    let args = Args::parse();
    if let Some(server) = args.layer_server {
        layer::serve_until_input_ends(server).await?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.is_whole() && cfg!(debug_assertions) {
        return Err("a debug build says nothing of speed: cargo run --release -p benchmarks".into());
    }
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let setting = Setting::now(root);
    let context = Context::new(args.smoke);
    let parts = args.parts();
    announce(&context, &parts);
    let mut sections = Vec::new();
    for part in parts {
        sections.push(measure(part, &context.of(part.name())).await?);
    }
    let report = Report { setting, took: context.elapsed(), sections };
    if args.is_whole() {
        report.replace(&root.join("docs/benchmarks.md"))?;
        context.progress("docs/benchmarks.md is written");
    } else {
        io::stdout().write_all(report.to_markdown().as_bytes())?;
        context.progress("done; docs/benchmarks.md is as it was");
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

async fn measure(part: Part, context: &Context) -> Result<Section, Error> {
    match part {
        Part::Database => database::measure(context).await,
        Part::Growth => growth::measure(context).await,
        Part::Hash => hash::measure(context).await,
        Part::Layer => layer::measure(context).await,
    }
}

fn announce(context: &Context, parts: &[Part]) {
    let names = parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(", ");
    if context.smoke {
        context.progress(&format!("{names}: for an instant each"));
    } else {
        let estimate = parts.iter().map(|part| part.estimate()).sum::<Duration>();
        context.progress(&format!("{names}: about {}", humantime::format_duration(estimate)));
    }
}
