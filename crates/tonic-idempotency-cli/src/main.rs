//! The command line of [tonic-idempotency](https://docs.rs/tonic-idempotency): `tonic-idempotency --help` lists its commands.

mod args;
mod hash;
mod migrations;

use std::{error::Error, process::ExitCode, time::SystemTime};

use clap::Parser as _;

use self::args::{Args, Command};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's answers")]
fn main() -> ExitCode {
    match answer(&Args::parse().command) {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer(command: &Command) -> Result<String, Box<dyn Error>> {
    match command {
        Command::Hash(options) => Ok(hash::hash(options)?),
        Command::Migrations(options) => Ok(migrations::write(options, SystemTime::now())?.to_string()),
    }
}
