//! Runs a throw-away PostgreSQL server until standard input ends, or this process does.
//!
//! ```text
//! scratch-postgres [installed | container]… [pgbouncer]
//! ```
//!
//! Tries the sources in the order given (by default `installed container`) and prints the server's URL on standard
//! output; with `pgbouncer`, the URL of a PgBouncer in front of the server.

use std::{error::Error, io, process::ExitCode};

use scratch_postgres::{PgBouncer, Server, Source};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command-line program")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut sources = Vec::new();
    let mut pooled = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "container" => sources.push(Source::Container),
            "installed" => sources.push(Source::Installed),
            "pgbouncer" => pooled = true,
            _ => {
                eprintln!("usage: scratch-postgres [installed | container]… [pgbouncer]");
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
    let bouncer = if pooled {
        match in_front_of(&server).await {
            Ok(bouncer) => Some(bouncer),
            Err(error) => {
                eprintln!("cannot start PgBouncer: {error}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        None
    };
    eprintln!("{}", server.describe());
    println!("{}", bouncer.as_ref().map_or(server.url(), PgBouncer::url));
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    // Leaked as if they were in a `static`: their removal must work in any case, and this program relies on it.
    std::mem::forget((server, bouncer));
    ExitCode::SUCCESS
}

async fn in_front_of(server: &Server) -> Result<PgBouncer, Box<dyn Error + Send + Sync>> {
    PgBouncer::start(&server.url().parse()?).await
}
