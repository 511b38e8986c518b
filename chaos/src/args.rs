//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum, value_parser};

use crate::{
    choice::{Front, Persistence, Replication, Topology},
    error::Error,
    fault::FaultSet,
    mode::Mode,
    sabotage::Sabotage,
};

/// Runs a seeded workload on the sample service while its servers, its database and their connections fail. Then counts
/// the effects: nothing may have happened twice, and nothing that was acknowledged may be lost.
///
/// Starts everything that it needs, and leaves nothing behind. PostgreSQL's server binaries (initdb and postgres) must
/// be installed. The exit code is 0 if all promises were kept, 1 if one was broken, 2 if the run could not be carried
/// out.
#[derive(Clone, Debug, Parser)]
#[command(name = "chaos", args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    #[expect(missing_docs, reason = "a doc comment here would show in the help")]
    pub command: Option<Command>,

    /// The number of operations that the clients carry out, in each mode.
    #[arg(long, value_name = "NUMBER", default_value = "10000", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) operations: u32,

    /// The seed of all decisions. The same seed gives the same operations and the same faults, as far as real processes
    /// allow. Defaults to a random one, which is printed.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// The mode in which the sample executes all its procedures; `both` runs one after the other, each on a new
    /// database.
    #[arg(long, value_enum, default_value_t = Modes::Both)]
    pub(crate) mode: Modes,

    /// The number of server processes.
    #[arg(long, value_name = "NUMBER", default_value = "3", value_parser = value_parser!(u32).range(1..=16))]
    pub(crate) servers: u32,

    /// The number of clients that call at the same time.
    #[arg(long, value_name = "NUMBER", default_value = "16", value_parser = value_parser!(u32).range(1..=256))]
    pub(crate) clients: u32,

    /// The lease of a reservation.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) lease: Duration,

    /// The sample's policy, in reserved mode, for a call while the store cannot be asked. `proceed` runs it unprotected,
    /// which can make duplicates; they are counted apart. In transactional mode such a call is always refused.
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = StorePolicy::Reject)]
    pub(crate) on_store_unavailable: StorePolicy,

    /// Make the table of keys one of this many partitions. By default it has none; with `--topology partitioned` or
    /// `--moving`, 16.
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(2..=256))]
    #[arg(default_value_ifs([("topology", "partitioned", "16"), ("moving", "true", "16")]))]
    pub(crate) partitions: Option<u16>,

    /// Move the table to its partitions while the clients call, and go on after each interruption, in place of making them before.
    /// Meanwhile movers are started, killed, and told to take everything back.
    #[arg(long)]
    pub(crate) moving: bool,

    /// The database, and what is in front of it.
    #[arg(long, value_enum, value_name = "TOPOLOGY", default_value_t = Topology::Single)]
    pub(crate) topology: Topology,

    /// How the servers find the primary, with `--topology patroni`.
    #[arg(long, value_enum, value_name = "FRONT", default_value_t = Front::Haproxy)]
    pub(crate) front: Front,

    /// The servers that a COMMIT waits for, with `--topology patroni`. With `asynchronous`, losses in failovers are counted, and break no
    /// promise.
    #[arg(long, value_enum, value_name = "REPLICATION", default_value_t = Replication::Synchronous)]
    pub(crate) replication: Replication,

    /// The persistence of Redis, with `--topology redis-cluster`.
    #[arg(long, value_enum, value_name = "PERSISTENCE", default_value_t = Persistence::Everysec)]
    pub(crate) persistence: Persistence,

    /// The replicas of Redis that a write has to reach, with `--topology redis-cluster`.
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = value_parser!(u32).range(0..=1))]
    pub(crate) replicas: u32,

    /// Seal the records, with three keys that are rotated each second.
    #[arg(long)]
    pub(crate) seal: bool,

    /// Make SERIALIZABLE the default isolation level of transactions.
    #[arg(long)]
    pub(crate) serializable: bool,

    /// The faults: `all`, `none`, or a comma-separated list of bouncer-kill, commit-cut, connection-cut, connections-cut, database-kill,
    /// failover, hang-up, mover, redis, server-kill, silence, stall, step-kill and zombie. There is bouncer-kill only with
    /// `--topology pgbouncer`; with `--topology patroni` there is failover instead of database-kill; redis with `--topology redis-cluster`, and mover with
    /// `--moving`, and only then.
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) faults: FaultSet,

    /// The directory for the file that tells the story of each broken promise, if there are any.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub(crate) report: PathBuf,

    /// Break promises on purpose, behind the back of the service, to test the auditor: `all`, or a comma-separated list
    /// of execute, forget, hold, lose, swap and unprotect.
    #[arg(long, value_name = "LIST", default_value = "none", hide = true)]
    pub(crate) sabotage: Sabotage,
}

/// The other roles of the program.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// One of the harness's servers: the sample with these flags, controlled through its standard input.
    #[command(hide = true)]
    Serve {
        /// The sample's flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<String>,
    },
}

/// The modes to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Modes {
    /// Transactional, then reserved.
    Both,
    /// Only reserved.
    Reserved,
    /// Only transactional.
    Transactional,
}

impl Args {
    /// The modes to run.
    pub(crate) fn modes(&self) -> Result<&'static [Mode], Error> {
        match (self.mode, self.topology) {
            (Modes::Reserved, _) | (Modes::Both, Topology::RedisCluster) => Ok(&[Mode::Reserved]),
            (Modes::Transactional, Topology::RedisCluster) => {
                Err("no transaction spans Redis and PostgreSQL: there is no transactional mode with records on Redis"
                    .into())
            }
            (Modes::Transactional, _) => Ok(&[Mode::Transactional]),
            (Modes::Both, _) => Ok(&[Mode::Transactional, Mode::Reserved]),
        }
    }
}

/// The policy for a call while the store cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StorePolicy {
    /// The call runs unprotected.
    Proceed,
    /// The call is refused.
    Reject,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn parses_a_well_formed_command_line() {
        Args::command().debug_assert();
    }

    #[test]
    fn defaults_are_as_documented() {
        let args = Args::parse_from(["chaos"]);
        assert_eq!((args.operations, args.servers, args.clients), (10_000, 3, 16));
        assert_eq!(args.modes().ok(), Some(&[Mode::Transactional, Mode::Reserved][..]));
        assert_eq!(args.on_store_unavailable, StorePolicy::Reject);
        assert!(args.topology == Topology::Single && !args.serializable && !args.seal);
        assert_eq!(args.lease, Duration::from_secs(2));
        assert_eq!(args.seed, None);
        assert!(args.partitions.is_none() && !args.moving);
    }

    #[test]
    fn a_table_that_is_partitioned_or_moved_has_16_partitions_by_default() {
        assert_eq!(Args::parse_from(["chaos", "--topology", "partitioned"]).partitions, Some(16));
        assert_eq!(Args::parse_from(["chaos", "--moving"]).partitions, Some(16));
        assert_eq!(Args::parse_from(["chaos", "--moving", "--partitions", "4"]).partitions, Some(4));
    }

    #[test]
    fn a_server_takes_the_flags_of_the_sample() {
        let args = Args::parse_from(["chaos", "serve", "--lease", "2s"]);
        let Some(Command::Serve { flags }) = args.command else { panic!("{:?}", args.command) };
        assert_eq!(flags, ["--lease", "2s"]);
    }
    #[test]
    fn has_transactional_mode_unless_the_records_are_on_redis() {
        for topology in Topology::value_variants() {
            let is_on_redis = *topology == Topology::RedisCluster;
            let modes = |mode| Args { mode, topology: *topology, ..Args::parse_from(["chaos"]) }.modes();
            assert_eq!(modes(Modes::Transactional).is_err(), is_on_redis);
            assert_eq!(modes(Modes::Reserved).ok(), Some(&[Mode::Reserved][..]));
            assert_eq!(modes(Modes::Both).is_ok_and(|modes| modes.len() == 1), is_on_redis);
        }
    }
}
