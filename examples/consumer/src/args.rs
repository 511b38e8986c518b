//! The command line.

use clap::{Parser, Subcommand};

use crate::faults::Faults;

/// Bills orders from NATS JetStream once each, while workers are killed and acknowledgements lost.
///
/// Starts a private NATS server, and a private PostgreSQL server from the installed binaries or in a container.
#[derive(Clone, Debug, Parser)]
#[command(name = "consumer")]
pub struct Args {
    /// The number of orders.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..))]
    pub(crate) orders: u32,

    /// How often a message is delivered at most; -1 for no limit. The workers refuse to start with too few.
    #[arg(long, value_name = "NUMBER", default_value_t = -1, allow_negative_numbers = true)]
    pub(crate) max_deliver: i64,

    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Role {
    /// Be a worker: the program starts itself with this.
    #[command(hide = true)]
    Worker {
        nats: String,
        database: String,
        /// The release of the service, which knows one field of the event more than the one before.
        #[arg(long)]
        release: u8,
        #[command(flatten)]
        faults: Faults,
    },
}
