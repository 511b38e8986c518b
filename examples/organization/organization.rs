//! `cargo run --example organization`: the sample service, on a PostgreSQL that it finds or starts. `-- --help` lists its
//! flags.

use std::process::ExitCode;

use clap::Parser;
use organization::Args;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    args.init_tracing();
    match organization::run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "why it ended, whatever the log's level")]
            {
                eprintln!("error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
