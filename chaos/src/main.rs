//! The fault harness: `cargo run --release -p chaos`. Add `-- --help` to list its flags.

use std::process::ExitCode;

use chaos::{Args, Command};
use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let ended = match args.command {
        Some(Command::Serve { flags }) => chaos::serve(&flags).await.map(|()| ExitCode::SUCCESS),
        None => chaos::run(&args).await,
    };
    ended.unwrap_or_else(|error| {
        #[expect(clippy::print_stderr, reason = "the reason for the exit code")]
        {
            eprintln!("error: {error}");
        }
        ExitCode::from(2)
    })
}
