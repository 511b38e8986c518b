//! Decides everything in advance.

use std::sync::Arc;

use crate::{
    args::{Args, StorePolicy},
    auditor::{Losses, Rules},
    choice::{Replication, Topology},
    mode::Mode,
    named::name,
    operation::Operation,
    schedule::{PlannedFault, schedule},
    seed::Seed,
};

/// Everything that is decided before the run begins.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) args: Args,
    pub(crate) operations: Arc<[Operation]>,
    pub(crate) seed: Seed,
}

impl Plan {
    /// The plan for these arguments and this seed.
    pub(crate) fn new(args: &Args, seed: u64) -> Self {
        let seed = Seed(seed);
        let operations = (0..args.operations).map(|number| Operation::new(seed, number, &args.faults));
        Self { args: args.clone(), operations: operations.collect(), seed }
    }

    /// The faults of a run in this mode.
    pub(crate) fn schedule(&self, mode: Mode) -> Vec<PlannedFault> {
        schedule(self.seed, &self.args, mode)
    }

    /// The policy of this mode for a call while the store cannot be asked.
    fn on_store_unavailable(&self, mode: Mode) -> StorePolicy {
        match mode {
            Mode::Reserved => self.args.on_store_unavailable,
            Mode::Transactional => StorePolicy::Reject,
        }
    }

    /// The flags with which a server of the sample starts.
    pub(crate) fn server(&self, mode: Mode) -> Vec<String> {
        let flag = |flag: &str, value: String| [flag.to_owned(), value];
        let mut flags = vec![
            flag("--listen", "127.0.0.1:0".to_owned()),
            flag("--mode", mode.to_string()),
            flag("--on-store-unavailable", name(self.on_store_unavailable(mode))),
            flag("--lease", humantime::format_duration(self.args.lease).to_string()),
        ];
        if mode == Mode::Reserved {
            // Nothing runs twice, whatever happens. If a lease ends without an outcome, people find out what became of
            // the call.
            flags.push(flag("--on-lease-ended", "refuse".to_owned()));
        }
        flags.concat()
    }

    /// The promises that apply in this mode.
    pub(crate) fn rules(&self, mode: Mode) -> Rules {
        Rules {
            lease: self.args.lease,
            mode,
            may_lose: match (self.args.topology, self.args.replication) {
                (Topology::Patroni, Replication::Asynchronous) => Losses::RecordsAndEffects,
                (Topology::RedisCluster, _) => Losses::Records,
                _ => Losses::Nothing,
            },
            on_store_unavailable: self.on_store_unavailable(mode),
        }
    }
}
