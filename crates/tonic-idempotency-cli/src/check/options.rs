//! The command line of `check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Checks from outside whether a server over gRPC or Connect, in any language, keeps the promises of idempotency keys.
///
/// It calls the methods that are named, about 250 times, and nothing else; the calls that succeed have real effects. ${VAR} in a header or
/// a request is a variable of the environment: it is expanded for the call, and reports show it as it is written.
///
/// Exit status: 0 nothing failed; 1 a promise failed; 2 bad input; 3 the server cannot be checked.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Print all promises as a page, and check nothing.
    #[arg(long, exclusive = true)]
    list: bool,
    #[command(flatten)]
    pub(super) target: Option<Target>,
}

#[derive(Clone, Debug, Args)]
pub(super) struct Target {
    /// The server, such as http://127.0.0.1:50051 or https://api.example.com. It has to speak HTTP/2.
    pub(super) url: String,
    /// The method that has an effect, such as organization.v1.ProjectService/CreateProject.
    pub(super) method: String,
    /// Its message as JSON. {{uuid}} in it is new for each operation, and the same in its retries.
    #[arg(long, value_name = "JSON")]
    pub(super) request: String,
    /// A header of each call, such as 'authorization: Bearer ${TOKEN}'. May be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(super) headers: Vec<String>,
    /// A command for a shell that prints how often the operation with the {{uuid}} in $CHECK_UUID has taken effect.
    #[arg(long, value_name = "COMMAND")]
    pub(super) count: Option<String>,
    /// A header that makes the handler take a second or more.
    #[arg(long, value_name = "NAME: VALUE")]
    pub(super) slow: Option<String>,
    /// Another server of the same service.
    #[arg(long, value_name = "URL")]
    pub(super) also: Option<String>,
    /// Another method that has an effect, and its message, such as 'shop.v1.Shop/CreateOrder {"item": "{{uuid}}"}'.
    #[arg(long, value_name = "METHOD JSON")]
    pub(super) other: Option<String>,
    /// A header that a second user sends instead of the header of that name. May be repeated.
    #[arg(long = "second-header", value_name = "NAME: VALUE")]
    pub(super) second_headers: Vec<String>,
    /// A command for a shell that kills the server, and starts it again.
    #[arg(long, value_name = "COMMAND")]
    pub(super) restart: Option<String>,
    /// The types, instead of the server's reflection.
    #[arg(long, value_name = "FILE")]
    pub(super) descriptor_set: Option<PathBuf>,
    /// The certificates of the authorities, as PEM, instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// The promises that are checked.
    #[arg(long, value_enum, default_value_t = Level::Core)]
    pub(super) level: Level,
    /// Only the promises with these codes, such as I1,F4.
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Print one JSON object a line.
    #[arg(long)]
    pub(super) json: bool,
    /// Write a report in JUnit's format, too.
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Do not ask.
    #[arg(long)]
    pub(super) yes: bool,
}

/// Which promises are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Level {
    /// The promises of any server with keys.
    Core,
    /// Also the headers, codes and details of tonic-idempotency.
    TonicIdempotency,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::TonicIdempotency => "tonic-idempotency",
        }
    }
}
