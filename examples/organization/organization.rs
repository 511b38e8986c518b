//! `cargo run --example organization` runs the sample service on a PostgreSQL server that it finds or starts.
//! `-- --help` lists its options.

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
            #[expect(clippy::print_stderr, reason = "the error is printed at every log level")]
            {
                eprintln!("error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
