//! Decides everything in advance.

use std::{sync::Arc, time::Duration};

use crate::{
    args::{Args, LeasePolicy, StorePolicy},
    auditor::{Losses, Rules},
    fault::FaultSet,
    mode::Mode,
    operation::Operation,
    sabotage::Sabotage,
    schedule::{Due, extras, schedule},
    seed::Seed,
    step::Step,
    topology::{Front, Persistence, Replication, Topology},
};

/// Everything that is decided before the run begins.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) clients: u32,
    pub(crate) faults: FaultSet,
    pub(crate) front: Front,
    pub(crate) lease: Duration,
    /// The most calls that share a statement; `None` for the store's default.
    pub(crate) max_batch: Option<u16>,
    pub(crate) on_lease_ended: LeasePolicy,
    pub(crate) on_store_unavailable: StorePolicy,
    /// Those of the clients, and then those that [faults](extras) need.
    pub(crate) operations: Arc<[Operation]>,
    /// The number of the clients' operations.
    pub(crate) of_clients: u32,
    /// Whether the table of keys is moved to its partitions during the run.
    pub(crate) moving: bool,
    /// How many partitions the table of keys has; `None` for none.
    pub(crate) partitions: Option<u16>,
    pub(crate) persistence: Persistence,
    /// The replicas of Redis that a write has to reach.
    pub(crate) replicas: u32,
    pub(crate) replication: Replication,
    pub(crate) sabotage: Sabotage,
    pub(crate) seed: Seed,
    pub(crate) serializable: bool,
    pub(crate) servers: u32,
    pub(crate) topology: Topology,
    pub(crate) verbose: bool,
}

impl Plan {
    /// The plan for these arguments and this seed.
    pub(crate) fn new(args: &Args, seed: u64) -> Self {
        let seed = Seed(seed);
        let operations = (0..args.operations).map(|number| Operation::new(seed, number, &args.faults));
        Self {
            clients: args.clients,
            faults: args.faults.clone(),
            front: args.front,
            lease: args.lease,
            max_batch: args.max_batch,
            on_lease_ended: args.on_lease_ended,
            on_store_unavailable: args.on_store_unavailable,
            operations: operations.chain(extras(seed, args.operations, &args.faults)).collect(),
            of_clients: args.operations,
            moving: args.moving,
            partitions: args.partitions,
            persistence: args.persistence,
            replicas: args.replicas,
            replication: args.replication,
            sabotage: args.sabotage.clone(),
            seed,
            serializable: args.serializable,
            servers: args.servers,
            topology: args.topology,
            verbose: args.verbose,
        }
    }

    /// The faults of a run in this mode.
    pub(crate) fn schedule(&self, mode: Mode) -> Vec<Due> {
        let mut schedule = schedule(self.seed, self.of_clients, self.servers, &self.faults, &Step::of(mode));
        schedule.retain(|due| {
            due.fault.can_happen_to(self.topology)
                && (self.max_batch != Some(1) || !due.fault.needs_batches())
                && (mode == Mode::Reserved || !due.fault.needs_reservations())
                && (self.moving || !due.fault.needs_move())
                && (!self.moving || !due.fault.hinders_move())
        });
        schedule
    }

    /// The policy of this mode for a call while the store cannot be asked.
    pub(crate) fn on_store_unavailable(&self, mode: Mode) -> StorePolicy {
        match mode {
            Mode::Reserved => self.on_store_unavailable,
            Mode::Transactional => StorePolicy::Reject,
        }
    }

    /// The flags of the sample, as a server has them.
    pub(crate) fn server(&self, mode: Mode) -> Vec<String> {
        let mut flags = vec!["--listen", "127.0.0.1:0", "--mode", mode.as_str()];
        flags.extend(["--on-store-unavailable", self.on_store_unavailable(mode).as_str()]);
        let lease = humantime::format_duration(self.lease).to_string();
        flags.extend(["--lease", &lease]);
        let max_batch = self.max_batch.map(|calls| calls.to_string());
        flags.extend(max_batch.iter().flat_map(|calls| ["--max-batch", calls]));
        if mode == Mode::Reserved {
            flags.extend(["--on-lease-ended", self.on_lease_ended.as_str()]);
        }
        flags.into_iter().map(str::to_owned).collect()
    }

    /// The promises that apply in this mode.
    pub(crate) fn rules(&self, mode: Mode) -> Rules {
        Rules {
            lease: self.lease,
            mode,
            may_lose: match (self.topology, self.replication) {
                (Topology::Patroni, Replication::Asynchronous) => Losses::RecordsAndEffects,
                (Topology::RedisCluster, _) => Losses::Records,
                _ => Losses::Nothing,
            },
            on_lease_ended: self.on_lease_ended,
            on_store_unavailable: self.on_store_unavailable(mode),
        }
    }
}
