//! `cargo run --example consumer` bills orders from NATS JetStream, while workers are killed and acknowledgements lost.
//! `-- --help` lists its options.

use std::process::ExitCode;

use clap::Parser;
use consumer::Args;

#[tokio::main]
async fn main() -> ExitCode {
    match consumer::run(Args::parse()).await {
        Ok(code) => code,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the error is for the person in front of the terminal")]
            {
                eprintln!("error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
