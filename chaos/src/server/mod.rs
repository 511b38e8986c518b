//! The code of a server process: the sample, and the hook that kills or stops the process at a step. The harness
//! controls it with lines on its standard input, and reads lines from its standard output.

mod on_redis;
mod points;
mod ready;
mod shared;
mod unprotected;
mod wire;

use std::{io::BufRead as _, process, thread};

use clap::Parser as _;
use rustix::process::{Signal, getpid, kill_process};
use tracing_subscriber::{
    EnvFilter, Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

pub(crate) use self::{
    on_redis::{REDIS_REPLICAS, REDIS_URLS},
    ready::Ready,
    unprotected::Unprotected,
    wire::{Action, Arm, Instruction, Saying},
};
use crate::{
    error::Error,
    step::{ENGINE_TARGET, SAMPLE_TARGET, UNPROTECTED_TARGET},
};
use on_redis::OnRedis;
use points::Points;
use shared::Shared;
use unprotected::Unprotectedness;

/// The default log filter, if `RUST_LOG` is not set. The pools log a lot about connections that were cut.
const LOG: &str = "warn,deadpool=error";

/// Runs the sample with these flags, on the database of `DATABASE_URL`, and with its records on the Redis Cluster of
/// `REDIS_URLS`, if there are any. Returns when the sample is stopped; the process
/// dies if its standard input ends, or at the step at which it was told to die.
///
/// # Errors
///
/// The flags are not flags of the sample, or the sample cannot serve.
pub async fn serve(flags: &[String]) -> Result<(), Error> {
    let points = Points::default();
    init_tracing(&points);
    Shared::report()?;
    let orders = points.clone();
    thread::Builder::new().name("orders".to_owned()).spawn(move || obey(&orders))?;

    let file = ready::path();
    let flags = ["organization"].into_iter().chain(flags.iter().map(String::as_str)).chain(["--ready-file"]);
    let args = organization::Args::try_parse_from(flags.map(Into::into).chain([file.clone().into_os_string()]))?;
    tokio::select! {
        served = run(args) => served,
        // It returns only if it fails; otherwise it waits for ever.
        error = ready::announce(&file) => Err(error),
    }
}

async fn run(args: organization::Args) -> Result<(), Error> {
    match on_redis::is_wanted() {
        true => organization::run_on::<OnRedis>(args).await,
        false => organization::run(args).await,
    }
}

/// Sends step events to `points`, reports unprotected runs, and sends warnings to stderr.
fn init_tracing(points: &Points) {
    let steps = Targets::new()
        .with_target(ENGINE_TARGET, tracing::Level::TRACE)
        .with_target(SAMPLE_TARGET, tracing::Level::TRACE);
    let runs = steps.clone().with_target(UNPROTECTED_TARGET, tracing::Level::WARN);
    let log = tracing_subscriber::fmt::layer().with_ansi(false).without_time().with_writer(std::io::stderr);
    let log_filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG));
    tracing_subscriber::registry()
        .with(points.clone().with_filter(steps))
        .with(Unprotectedness.with_filter(runs))
        .with(log.with_filter(log_filter))
        .init();
}

/// Carries out the instructions on standard input. When the input ends, the harness has ended, so this process dies
/// too.
fn obey(points: &Points) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.parse() {
            Ok(Instruction::Arm(arm)) => points.arm(Some(arm)),
            Ok(Instruction::Forget) => points.arm(None),
            Ok(Instruction::Resume) => points.resume(),
            Err(error) => tracing::error!("{error}"),
        }
    }
    die();
}

/// Ends this process at this very point, as `kill -9` does.
pub(crate) fn die() -> ! {
    // A process may always kill itself.
    let _ = kill_process(getpid(), Signal::KILL);
    process::abort()
}
