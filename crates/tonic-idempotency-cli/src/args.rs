//! The command line.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::{check, hash, health, keys, migrations, top};

/// Works with the idempotency keys of tonic-idempotency in PostgreSQL.
///
/// The commands that connect take the database from the environment variable DATABASE_URL, such as
/// postgres://my_operator@db/my_app?sslmode=verify-full, and its password from PGPASSWORD: what is on a command line, every user of the
/// machine sees.
///
/// Exit status: 0 done; 1 not everything is as it should be; 2 bad input; 3 no answer from the database; 4 a right is missing.
#[derive(Clone, Debug, Parser)]
#[command(name = "tonic-idempotency", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    List(keys::ListOptions),
    Inspect(keys::InspectOptions),
    Release(keys::ReleaseOptions),
    Doctor(health::DoctorOptions),
    Status(health::StatusOptions),
    Sweep(health::SweepOptions),
    Top(top::Options),
    Check(Box<check::Options>),
    Hash(hash::Options),
    Migrations(migrations::Options),
    /// Prints the completions of a shell, for its folder of completions.
    Completions {
        /// The shell.
        shell: Shell,
    },
}
