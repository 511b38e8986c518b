//! The command line of [tonic-idempotency](https://docs.rs/tonic-idempotency): `tonic-idempotency --help` lists its commands.

mod args;
mod migrations;

use std::{process::ExitCode, time::SystemTime};

use clap::Parser as _;

use self::args::{Args, Command};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's answers")]
fn main() -> ExitCode {
    let Args { command: Command::Migrations(options) } = Args::parse();
    match migrations::write(&options, SystemTime::now()) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
