use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::Args,
    error::Error,
    plan::Plan,
    report::{LEGEND, Table, write_stories},
    trial::Trial,
};

/// Runs the harness: success where all promises were kept. Ctrl-C and SIGTERM end it early, and leave nothing behind.
///
/// # Errors
///
/// It could not be carried out, or was interrupted.
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
    if !args.report.is_dir() {
        return Err(format!("--report {} is no directory", args.report.display()).into());
    }
    let seed = args.seed.unwrap_or_else(rand_seed);
    let plan = Plan::new(args, seed);
    let mut kept = true;
    say(&format!("# Chaos, seed {seed}\n"));
    for mode in args.mode.each() {
        let trial = Trial::run(&plan, *mode).await.map_err(|error| format!("{error} (seed {seed}, {mode} mode)"))?;
        say(&format!("{}\n", Table { plan: &plan, trial: &trial }));
        if !trial.verdict.violations.is_empty() {
            kept = false;
            let path = write_stories(&plan, &trial, &args.report)?;
            say(&format!("The stories are in {}; again: `--seed {seed}`.\n", path.display()));
        }
    }
    say(LEGEND);
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn rand_seed() -> u64 {
    // Random enough to be another one each time, and short enough to be typed.
    u64::from(uuid::Uuid::new_v4().as_fields().0)
}

fn say(text: &str) {
    // Whoever closed stdout does not want to read it; the exit code says it, too.
    let _ = writeln!(io::stdout(), "{text}");
}
