use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    time::Duration,
};

use clap::{Parser, ValueEnum};
use tracing_subscriber::EnvFilter;

/// A small multi-tenant service whose create calls take idempotency keys, on a real PostgreSQL.
///
/// The database is the one that DATABASE_URL names (a superuser's URL); without it a private server, started from
/// PostgreSQL's installed binaries or else in a container, and removed at exit.
#[derive(Clone, Debug, Parser)]
#[command(name = "organization")]
pub struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:50051")]
    pub listen: String,

    /// How old an outbox row is when it is processed.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = humantime::parse_duration)]
    pub outbox_delay: Duration,

    /// How long a create call waits before it commits.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    pub handler_delay: Duration,

    /// Where a handler's writes and the record of its key meet, for every procedure, whatever its proto option says.
    #[arg(long, value_name = "MODE")]
    pub mode: Option<ModeArg>,

    /// How long a reservation is believed, for every procedure.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub lease: Option<Duration>,

    /// What to do with a key whose first call ended its lease without an outcome, for every procedure. With `reconcile`,
    /// those that have no reconciler refuse.
    #[arg(long, value_name = "POLICY")]
    pub on_lease_ended: Option<LeasePolicyArg>,

    /// What to do where the idempotency store cannot be reached, for every procedure.
    #[arg(long, value_name = "POLICY")]
    pub on_store_unavailable: Option<StorePolicyArg>,

    /// A file to write once it serves: one JSON object with `address`, `database_url`, `tokens` by user name,
    /// `organization_id` and `cluster_id`. Removed at exit.
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,

    /// Log more. RUST_LOG says exactly what.
    #[arg(long)]
    pub verbose: bool,
}

/// A mode, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Reserved before the handler runs, completed afterwards.
    Reserved,
    /// Committed with what the handler wrote.
    Transactional,
}

/// A policy for leases that ended, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LeasePolicyArg {
    /// Ask the procedure's reconciler.
    Reconcile,
    /// Refuse the call.
    Refuse,
    /// Run the handler again.
    Rerun,
}

/// A policy for a store that is away, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StorePolicyArg {
    /// Run the call unprotected.
    Proceed,
    /// Refuse the call.
    Reject,
}

impl Args {
    /// Logs to stderr, what `RUST_LOG` says or else what `--verbose` does.
    pub fn init_tracing(&self) {
        let default =
            if self.verbose { "debug,h2=info,hyper_util=info,tokio_postgres=warn" } else { "info,tokio_postgres=warn" };
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(io::stderr().is_terminal())
            .with_target(false)
            .with_writer(io::stderr)
            .init();
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn defaults_are_as_documented() {
        let args = Args::parse_from(["organization"]);
        assert_eq!(args.listen, "127.0.0.1:50051");
        assert_eq!(args.outbox_delay, Duration::from_secs(3));
        assert_eq!(args.handler_delay, Duration::ZERO);
        assert_eq!(args.ready_file, None);
        assert_eq!((args.mode, args.lease), (None, None));
        assert_eq!((args.on_lease_ended, args.on_store_unavailable), (None, None));
    }

    #[test]
    fn policies_have_names() {
        let args = Args::parse_from(["organization", "--mode", "reserved", "--on-lease-ended", "refuse"]);
        assert_eq!((args.mode, args.on_lease_ended), (Some(ModeArg::Reserved), Some(LeasePolicyArg::Refuse)));
        assert!(Args::try_parse_from(["organization", "--mode", "neither"]).is_err());
    }

    #[test]
    fn durations_have_units() {
        let args = Args::parse_from(["organization", "--outbox-delay", "250ms", "--handler-delay", "1m"]);
        assert_eq!(args.outbox_delay, Duration::from_millis(250));
        assert_eq!(args.handler_delay, Duration::from_secs(60));
        assert!(Args::try_parse_from(["organization", "--outbox-delay", "3"]).is_err());
    }
}
