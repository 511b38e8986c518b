//! What runs in a server process: the sample, and what makes it die or stop at a point. The harness talks to it in
//! lines, over its standard input and output.

mod points;
mod ready;
mod wire;

use std::{io::BufRead as _, process, thread};

use clap::Parser as _;
use rustix::process::{Signal, getpid, kill_process};
use tracing_subscriber::{
    EnvFilter, Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

pub(crate) use self::{
    ready::Ready,
    wire::{Action, Arm, Instruction, Saying},
};
use crate::{
    error::Error,
    step::{ENGINE_TARGET, SAMPLE_TARGET},
};
use points::Points;

/// What is logged unless `RUST_LOG` says otherwise. A pool has much to say of a connection that was cut.
const LOG: &str = "warn,deadpool=error";

/// Runs the sample with these flags, on the database that `DATABASE_URL` names, until it is stopped, its standard input
/// ends, or it has reached the point that it was told to die at.
///
/// # Errors
///
/// The flags are not the sample's, or it cannot serve.
pub async fn serve(flags: &[String]) -> Result<(), Error> {
    let points = Points::default();
    init_tracing(&points);
    let orders = points.clone();
    thread::Builder::new().name("orders".to_owned()).spawn(move || obey(&orders))?;

    let file = ready::path();
    let flags = ["organization"].into_iter().chain(flags.iter().map(String::as_str)).chain(["--ready-file"]);
    let args = organization::Args::try_parse_from(flags.map(Into::into).chain([file.clone().into_os_string()]))?;
    tokio::select! {
        served = organization::run(args) => served,
        // It only ever waits then.
        error = ready::announce(&file) => Err(error),
    }
}

/// Events of the points go to them, warnings to stderr.
fn init_tracing(points: &Points) {
    let steps = Targets::new()
        .with_target(ENGINE_TARGET, tracing::Level::TRACE)
        .with_target(SAMPLE_TARGET, tracing::Level::TRACE);
    let log = tracing_subscriber::fmt::layer().with_ansi(false).without_time().with_writer(std::io::stderr);
    let log_filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG));
    tracing_subscriber::registry().with(points.clone().with_filter(steps)).with(log.with_filter(log_filter)).init();
}

/// Does what the lines of standard input say. When they end, so has the harness, and this process has nothing to live
/// for.
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
fn die() -> ! {
    // Nobody needs more rights to kill themselves.
    let _ = kill_process(getpid(), Signal::KILL);
    process::abort()
}
