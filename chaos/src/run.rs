//! Runs the plan in each mode and prints the tables.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::{Args, StorePolicy},
    error::Error,
    plan::Plan,
    report::{LEGEND, Table, write_stories},
    step::Step,
    topology::Topology,
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
    if !args.report.is_dir() {
        return Err(format!("--report {} is not a directory", args.report.display()).into());
    }
    if args.topology == Topology::RedisCluster && args.on_store_unavailable == StorePolicy::Proceed {
        return Err("no witness sees whether Redis could be asked: leave `--on-store-unavailable proceed` out".into());
    }
    let modes = args.topology.modes(args.mode)?;
    let seed = args.seed.unwrap_or_else(rand_seed);
    let plan = Plan::new(args, seed);
    let mut kept = true;
    say(&format!("# Chaos, seed {seed}\n"));
    if args.clients_die {
        if args.topology == Topology::RedisCluster {
            return Err("clients die with records in PostgreSQL alone".into());
        }
        for mode in modes {
            let audit = crate::mortal::run(&plan, *mode, args.without).await;
            let audit = audit.map_err(|error| format!("{error} (seed {seed}, {mode} mode)"))?;
            say(&format!("{audit}\n"));
            all_passed(&audit.missed)?;
            kept &= audit.is_kept();
        }
        return Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    for mode in modes {
        let trial = Trial::run(&plan, *mode).await.map_err(|error| format!("{error} (seed {seed}, {mode} mode)"))?;
        say(&format!("{}\n", Table { plan: &plan, trial: &trial }));
        if !trial.verdict.violations.is_empty() {
            kept = false;
            let path = write_stories(&plan, &trial, &args.report)?;
            say(&format!("The stories are in {}. To repeat the run: `--seed {seed}`.\n", path.display()));
        }
        all_passed(&trial.tally.missed)?;
    }
    say(LEGEND);
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A step that no call passed was not tested, whatever else was.
fn all_passed(missed: &[Step]) -> Result<(), Error> {
    if missed.is_empty() {
        return Ok(());
    }
    let missed: Vec<_> = missed.iter().map(|step| step.as_str()).collect();
    Err(format!("no call passed {}, so that nothing was tested there", missed.join(", ")).into())
}

fn rand_seed() -> u64 {
    // Random enough to differ each time, and short enough to type.
    u64::from(uuid::Uuid::new_v4().as_fields().0)
}

fn say(text: &str) {
    // Fails if stdout is closed. The exit code has the result, too.
    let _ = writeln!(io::stdout(), "{text}");
}
