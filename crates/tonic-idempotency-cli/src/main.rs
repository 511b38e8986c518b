//! The command line of tonic-idempotency: `tonic-idempotency --help` lists its commands.

mod args;
mod check;
mod connection;
mod failure;
mod hash;
mod health;
mod keys;
mod migrations;
mod on_redis;
mod output;
mod top;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::SystemTime,
};

use clap::{CommandFactory as _, Parser as _};
use tokio::runtime;

use self::{
    args::{Args, Command},
    failure::Failure,
};

#[expect(clippy::print_stderr, reason = "a program's answers")]
fn main() -> ExitCode {
    match run(&Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_of_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.status()
        }
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Hash(options) => writeln!(io::stdout(), "{}", hash::hash(options)?)?,
        Command::Migrations(options) => {
            writeln!(io::stdout(), "{}", migrations::write(options, SystemTime::now())?)?;
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "tonic-idempotency", &mut script);
            io::stdout().write_all(&script)?;
        }
        Command::Check(options) => runtime()?.block_on(check::check(options))?,
        Command::List(_)
        | Command::Inspect(_)
        | Command::Release(_)
        | Command::Doctor(_)
        | Command::Status(_)
        | Command::Sweep(_)
        | Command::Top(_) => runtime()?.block_on(ask(command))?,
    }
    Ok(())
}

fn runtime() -> io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

/// Runs a command that asks the database.
async fn ask(command: &Command) -> Result<(), Failure> {
    if let Some(url) = on_redis::address() {
        return on_redis::ask(command, &url).await;
    }
    match command {
        Command::List(options) => keys::list(options).await,
        Command::Inspect(options) => keys::inspect(options).await,
        Command::Release(options) => keys::release(options).await,
        Command::Doctor(options) => health::doctor(options).await,
        Command::Status(options) => health::status(options).await,
        Command::Sweep(options) => health::sweep(options).await,
        Command::Top(options) => top::top(options).await,
        Command::Check(_) | Command::Hash(_) | Command::Migrations(_) | Command::Completions { .. } => Ok(()),
    }
}
