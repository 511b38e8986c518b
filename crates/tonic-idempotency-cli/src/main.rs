//! The command line of tonic-idempotency: `tonic-idempotency --help` lists its commands.

mod args;
mod hash;
mod migrations;

use std::{
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
    time::SystemTime,
};

use clap::Parser as _;

use self::args::{Args, Command};

#[expect(clippy::print_stderr, reason = "a program's answers")]
fn main() -> ExitCode {
    let told = answer(&Args::parse().command).and_then(|answer| Ok(writeln!(io::stdout(), "{answer}")?));
    match told {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe, because it has read enough.
        Err(error) if is_closed(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn answer(command: &Command) -> Result<String, Box<dyn Error>> {
    match command {
        Command::Hash(options) => Ok(hash::hash(options)?),
        Command::Migrations(options) => Ok(migrations::write(options, SystemTime::now())?.to_string()),
    }
}
