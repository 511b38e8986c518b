//! Runs a throw-away PostgreSQL server until standard input ends, or this process does.
//!
//! ```text
//! scratch-postgres [installed | container]…
//! ```
//!
//! Tries the sources in the order given (by default `installed container`) and prints the server's URL on standard
//! output.

use std::{io, process::ExitCode};

use scratch_postgres::{Server, Source};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that people run")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut sources = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "container" => sources.push(Source::Container),
            "installed" => sources.push(Source::Installed),
            _ => {
                eprintln!("usage: scratch-postgres [installed | container]…");
                return ExitCode::from(2);
            }
        }
    }
    if sources.is_empty() {
        sources = vec![Source::Installed, Source::Container];
    }
    let server = match Server::start(&sources).await {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    eprintln!("{}", server.describe());
    println!("{}", server.url());
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    // As if it were in a `static`: what removes it then has to work in any case, so this program relies on it.
    std::mem::forget(server);
    ExitCode::SUCCESS
}
