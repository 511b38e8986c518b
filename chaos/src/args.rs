use std::{fmt, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum, value_parser};

use crate::{fault::FaultSet, sabotage::Sabotage};

/// Runs a seeded workload on the sample service while its servers, its database and their connections fail, and then
/// counts what it left: nothing may have happened twice, and nothing that was acknowledged may be lost.
///
/// It starts everything that it needs, and leaves nothing behind. PostgreSQL's server binaries (initdb and postgres)
/// have to be installed. The exit code is 0 where all promises were kept, 1 where one was broken, 2 where it could not
/// run.
#[derive(Clone, Debug, Parser)]
#[command(name = "chaos", args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    #[expect(missing_docs, reason = "it would be in the help")]
    pub command: Option<Command>,

    /// How many operations the clients carry out, in each mode.
    #[arg(long, value_name = "NUMBER", default_value = "10000", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) operations: u32,

    /// What all decisions are drawn from: the same seed makes the same operations and the same faults, as far as real
    /// processes allow. Defaults to one at random, which is printed.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// In which mode the sample executes all its procedures; `both`: one after the other, each on a new database.
    #[arg(long, value_enum, default_value_t = Modes::Both)]
    pub(crate) mode: Modes,

    /// How many server processes there are.
    #[arg(long, value_name = "NUMBER", default_value = "3", value_parser = value_parser!(u32).range(1..=16))]
    pub(crate) servers: u32,

    /// How many clients call at the same time.
    #[arg(long, value_name = "NUMBER", default_value = "16", value_parser = value_parser!(u32).range(1..=256))]
    pub(crate) clients: u32,

    /// What the sample does, in reserved mode, with a key whose lease ended without an outcome. `refuse` promises the
    /// most: nothing runs twice, whatever happens, and what happened to such a call is for people to find out.
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = LeasePolicy::Refuse)]
    pub(crate) on_lease_ended: LeasePolicy,

    /// How long a reservation is believed.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) lease: Duration,

    /// Which faults there are: `all`, `none`, or a list with commas of commit-cut, connection-cut, connections-cut,
    /// database-kill, full-pool, hang-up, server-kill, stall, step-kill and zombie.
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) faults: FaultSet,

    /// Where the file goes that tells the story of every broken promise, if there are any.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub(crate) report: PathBuf,

    /// Show what the servers log, from warnings up, on stderr.
    #[arg(long)]
    pub(crate) verbose: bool,

    /// Break promises on purpose, behind the back of the service, to see that the auditor notices: `all`, or a list
    /// with commas of execute, forget, hold, lose and swap.
    #[arg(long, value_name = "LIST", default_value = "none", hide = true)]
    pub(crate) sabotage: Sabotage,
}

/// What the program is beside the harness.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// One of the harness's servers: the sample with these flags, doing as its standard input says.
    #[command(hide = true)]
    Serve {
        /// The sample's flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<String>,
    },
}

/// Which modes are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Modes {
    /// Transactional, then reserved.
    Both,
    /// Reserved alone.
    Reserved,
    /// Transactional alone.
    Transactional,
}

impl Modes {
    pub(crate) fn each(self) -> &'static [Mode] {
        match self {
            Self::Both => &[Mode::Transactional, Mode::Reserved],
            Self::Reserved => &[Mode::Reserved],
            Self::Transactional => &[Mode::Transactional],
        }
    }
}

/// How the sample executes its procedures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Reserved,
    Transactional,
}

impl Mode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Transactional => "transactional",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is done with a key whose lease ended without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LeasePolicy {
    /// The application is asked whether the call took effect.
    Reconcile,
    /// The call is refused.
    Refuse,
    /// The handler runs again.
    Rerun,
}

impl LeasePolicy {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Reconcile => "reconcile",
            Self::Refuse => "refuse",
            Self::Rerun => "rerun",
        }
    }
}

impl fmt::Display for LeasePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
        let args = Args::parse_from(["chaos"]);
        assert_eq!((args.operations, args.servers, args.clients), (10_000, 3, 16));
        assert_eq!(args.mode.each(), [Mode::Transactional, Mode::Reserved]);
        assert_eq!(args.on_lease_ended, LeasePolicy::Refuse);
        assert_eq!(args.lease, Duration::from_secs(2));
        assert_eq!(args.seed, None);
    }

    #[test]
    fn a_server_takes_the_flags_of_the_sample() {
        let args = Args::parse_from(["chaos", "serve", "--lease", "2s"]);
        assert!(matches!(args.command, Some(Command::Serve { flags }) if flags == ["--lease", "2s"]));
    }
}
