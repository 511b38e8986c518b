//! Runs the plan in each mode and prints the tables.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::{Args, StorePolicy},
    choice::Topology,
    error::Error,
    mode::Mode,
    plan::Plan,
    report::{LEGEND, Table, write_stories},
    step::Step,
    trial::Trial,
};

/// Runs the harness; returns success if all promises were kept. Ctrl-C and SIGTERM end it early, and leave nothing
/// behind.
///
/// # Errors
///
/// The run could not be carried out, or was interrupted.
pub async fn run(args: &Args) -> Result<ExitCode, Error> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = trials(args) => ended,
        _ = interrupt.recv() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
    }
}

async fn trials(args: &Args) -> Result<ExitCode, Error> {
    let modes = args.modes()?;
    if !args.report.is_dir() {
        return Err(format!("--report {} is not a directory", args.report.display()).into());
    }
    if args.topology == Topology::RedisCluster && args.on_store_unavailable == StorePolicy::Proceed {
        return Err("no witness sees whether Redis could be asked: leave `--on-store-unavailable proceed` out".into());
    }
    // A random one is different each time, and short enough to type.
    let seed = args.seed.unwrap_or_else(|| u64::from(uuid::Uuid::new_v4().as_fields().0));
    let plan = Plan::new(args, seed);
    let mut is_kept = true;
    say(&format!("# Chaos, seed {seed}\n"));
    for mode in modes {
        is_kept &= one(&plan, *mode).await.map_err(|error| format!("{error} (seed {seed}, {mode} mode)"))?;
    }
    say(LEGEND);
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one mode. Returns whether all promises were kept.
async fn one(plan: &Plan, mode: Mode) -> Result<bool, Error> {
    let trial = Trial::run(plan, mode).await?;
    say(&format!("{}\n", Table { plan, trial: &trial }));
    let is_kept = trial.verdict.violations.is_empty();
    if !is_kept {
        let path = write_stories(plan, &trial)?;
        say(&format!("The stories are in {}. To repeat the run: `--seed {}`.\n", path.display(), plan.seed.0));
    }
    all_passed(&trial.tally.missed)?;
    Ok(is_kept)
}

/// A step that no call passed was not tested, whatever else was.
fn all_passed(missed: &[Step]) -> Result<(), Error> {
    if missed.is_empty() {
        return Ok(());
    }
    let missed: Vec<_> = missed.iter().map(Step::to_string).collect();
    Err(format!("no call passed {}, so that nothing was tested there", missed.join(", ")).into())
}

fn say(text: &str) {
    // Fails if stdout is closed. The exit code has the result, too.
    let _ = writeln!(io::stdout(), "{text}");
}
