//! The command line.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    time::Duration,
};

use clap::{Parser, ValueEnum, value_parser};
use tracing_subscriber::EnvFilter;

/// A small multi-tenant service on PostgreSQL whose create calls take idempotency keys.
///
/// DATABASE_URL names the database (as a superuser). If it is not set, the sample starts a private server from
/// PostgreSQL's installed binaries, or else in a container, and removes it at exit. API_DATABASE_URL is the URL of the
/// API's own connections if they take another way, such as a PgBouncer in transaction mode. Each connection of that way
/// has to begin as the role organization_api. TOKEN_SECRET signs the tokens of its users, so that several processes take the same; if it is
/// not set, they end with the process.
#[derive(Clone, Debug, Parser)]
#[command(name = "organization")]
pub struct Args {
    /// The address to listen on; port 0 picks a free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:50051")]
    pub listen: String,

    /// A host that the page answers for, besides localhost and the one of --listen: a name or an address, without a port. May
    /// be repeated.
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,

    /// The age at which an outbox row is processed.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = humantime::parse_duration)]
    pub outbox_delay: Duration,

    /// How long a create call waits before it commits.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    pub handler_delay: Duration,

    /// The mode of every procedure. Overrides the proto option.
    #[arg(long, value_name = "MODE")]
    pub mode: Option<ModeArg>,

    /// The lease of a reservation and the time for which a transaction may be idle, for every procedure.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub lease: Option<Duration>,

    /// The time within which a handler has to end, for every procedure.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub handler_timeout: Option<Duration>,

    /// The most calls that share a statement of the idempotency store, from 1 (which turns that off) to 1024. Defaults to the
    /// store's own.
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(1..=1024))]
    pub max_batch: Option<u16>,

    /// The policy for a key whose lease ended without an outcome, for every procedure. With `reconcile`, procedures
    /// without a reconciler refuse.
    #[arg(long, value_name = "POLICY")]
    pub on_lease_ended: Option<LeasePolicyArg>,

    /// The policy for calls while the idempotency store is unavailable, for every procedure.
    #[arg(long, value_name = "POLICY")]
    pub on_store_unavailable: Option<StorePolicyArg>,

    /// A file to write when the service is ready: a JSON object with `address`, `database_url`, `tokens` by user,
    /// `organization_id` and `cluster_id`. It must not exist yet. Removed at exit.
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,

    /// Logs more. RUST_LOG overrides this option.
    #[arg(long)]
    pub verbose: bool,
}

/// A mode on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Reserves the key before the handler runs and completes the record afterwards.
    Reserved,
    /// Commits the record together with the handler's writes.
    Transactional,
}

/// A policy for ended leases on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LeasePolicyArg {
    /// Asks the procedure's reconciler.
    Reconcile,
    /// Refuses the call.
    Refuse,
    /// Runs the handler again.
    Rerun,
}

/// A policy for an unavailable store on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StorePolicyArg {
    /// Runs the call without idempotency.
    Proceed,
    /// Refuses the call.
    Reject,
}

impl Args {
    /// Starts logging to stderr, at the level set by `RUST_LOG` or else by `--verbose`.
    pub fn init_tracing(&self) {
        let default = if self.verbose {
            "debug,h2=info,hyper_util=info,tokio_postgres=warn"
        } else {
            "info,tokio_postgres=warn,organization::rpc=off"
        };
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
        assert_eq!((args.ready_file, args.hosts), (None, Vec::new()));
        assert_eq!((args.mode, args.lease, args.max_batch), (None, None, None));
        assert_eq!((args.on_lease_ended, args.on_store_unavailable), (None, None));
    }

    #[test]
    fn modes_and_policies_are_parsed_by_name() {
        let args = Args::parse_from(["organization", "--mode", "reserved", "--on-lease-ended", "refuse"]);
        assert_eq!((args.mode, args.on_lease_ended), (Some(ModeArg::Reserved), Some(LeasePolicyArg::Refuse)));
        assert!(Args::try_parse_from(["organization", "--mode", "neither"]).is_err());
    }

    #[test]
    fn durations_need_a_unit() {
        let args = Args::parse_from(["organization", "--outbox-delay", "250ms", "--handler-delay", "1m"]);
        assert_eq!(args.outbox_delay, Duration::from_millis(250));
        assert_eq!(args.handler_delay, Duration::from_secs(60));
        assert!(Args::try_parse_from(["organization", "--outbox-delay", "3"]).is_err());
    }
}
