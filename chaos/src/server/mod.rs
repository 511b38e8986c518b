//! The code of a server process: the sample, and the hook that kills or stops the process at a step. The harness
//! controls it with lines on its standard input, and reads lines from its standard output.

mod announce;
mod calls;
mod on_redis;
mod points;
mod sealed;
mod wire;

use std::{io::BufRead as _, thread};

use clap::Parser as _;
use organization::{Driver, TokioPostgres};
use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use self::{announce::announce, calls::CallLayer, on_redis::SampleOnRedis, points::Points, sealed::Sealed};
pub(crate) use self::{
    on_redis::{REDIS_REPLICAS, REDIS_URLS},
    points::die,
    sealed::SEALS,
    wire::{Action, Announcement, Arm, Instruction, Saying, UnprotectedCall},
};
use crate::error::Error;

/// The default log filter, if `RUST_LOG` is not set. The pools log a lot about connections that were cut.
const LOG: &str = "warn,deadpool=error";

/// Runs the sample with these flags, on the database of `DATABASE_URL`, and with its records on the Redis Cluster of
/// `REDIS_URLS`, if there are any; sealed, if `SEALS` is set. Returns when the sample is stopped; the process
/// dies if its standard input ends, or at the step at which it was told to die.
///
/// # Errors
///
/// The flags are not flags of the sample, or the sample cannot serve.
pub async fn serve(flags: &[String]) -> Result<(), Error> {
    let points = Points::default();
    let log = tracing_subscriber::fmt::layer().with_ansi(false).without_time().with_writer(std::io::stderr);
    let log_filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG));
    tracing_subscriber::registry()
        .with(CallLayer(points.clone()).with_filter(CallLayer::filter()))
        .with(log.with_filter(log_filter))
        .init();
    thread::Builder::new().name("instructions".to_owned()).spawn(move || obey(&points))?;

    let file = announce::path();
    let flags = ["organization"].into_iter().chain(flags.iter().map(String::as_str)).chain(["--ready-file"]);
    let args = organization::Args::try_parse_from(flags.map(Into::into).chain([file.clone().into_os_string()]))?;
    tokio::select! {
        served = run(args) => served,
        announced = announce(&file) => match announced? {},
    }
}

async fn run(args: organization::Args) -> Result<(), Error> {
    if on_redis::is_wanted() { run_on::<SampleOnRedis>(args).await } else { run_on::<TokioPostgres>(args).await }
}

async fn run_on<D: Driver>(args: organization::Args) -> Result<(), Error> {
    if sealed::is_wanted() {
        organization::run_on::<Sealed<D>>(args).await
    } else {
        organization::run_on::<D>(args).await
    }
}

/// Carries out the instructions on standard input. When the input ends, the harness has ended, so this process dies
/// too.
fn obey(points: &Points) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Instruction::Arm(arm)) => points.arm(Some(arm)),
            Ok(Instruction::Forget) => points.arm(None),
            Ok(Instruction::Resume) => points.resume(),
            Err(error) => tracing::error!("{error}"),
        }
    }
    die();
}
