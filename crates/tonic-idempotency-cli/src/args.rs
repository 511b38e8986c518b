//! The command line.

use clap::{Parser, Subcommand};

use crate::migrations::Options;

/// Works with the idempotency keys of tonic-idempotency in PostgreSQL.
#[derive(Clone, Debug, Parser)]
#[command(name = "tonic-idempotency", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    Migrations(Options),
}
