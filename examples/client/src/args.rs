//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::Parser;
use uuid::Uuid;

/// Creates projects at the sample service, through a connection that loses answers.
///
/// Without --server, starts a sample of its own, on a private PostgreSQL server from the installed binaries or in a container.
#[derive(Clone, Debug, Parser)]
#[command(name = "client")]
pub struct Args {
    /// The number of projects.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) calls: u32,

    /// The number of attempts of each call whose answer is lost.
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    pub(crate) lose: u32,

    /// How long the background work of a project takes, at a sample that is started.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = humantime::parse_duration)]
    pub(crate) work: Duration,

    /// Start a client that is killed in the middle of its calls, and then send what it has left in its journal.
    #[arg(long, conflicts_with = "lose")]
    pub(crate) kill: bool,

    /// The journal: each call is written there before it is sent. If it holds calls that have not ended, those are sent, and no others.
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,

    /// The file that a running sample has written: it was started with `--ready-file FILE`.
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub(crate) ready_file: Option<PathBuf>,

    /// The address of a running sample, such as http://127.0.0.1:50051. Its tour has a token and the id of a cluster.
    #[arg(long, value_name = "URL", requires_all = ["token", "cluster"])]
    pub(crate) server: Option<String>,

    /// The bearer token of a user of that sample.
    #[arg(long, value_name = "TOKEN", requires = "server")]
    pub(crate) token: Option<String>,

    /// The id of a cluster of that user's organization.
    #[arg(long, value_name = "UUID", requires = "server")]
    pub(crate) cluster: Option<Uuid>,

    /// Be the client that is killed, whose projects have this label: the program starts itself with this.
    #[arg(long, hide = true, requires = "journal")]
    pub(crate) be_killed: Option<Uuid>,

    /// Be the sample: the program starts itself with this.
    #[arg(long, hide = true)]
    pub(crate) be_the_sample: Option<PathBuf>,
}
