//! `cargo run --example client` creates projects at the sample service through a connection that loses answers.
//! `-- --kill` shows how it survives its own death, and `-- --help` lists its options.

use std::process::ExitCode;

use clap::Parser;
use client_example::Args;

#[tokio::main]
async fn main() -> ExitCode {
    match client_example::run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the error is for the person in front of the terminal")]
            {
                eprintln!("error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
