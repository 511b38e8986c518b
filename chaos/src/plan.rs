//! Decides everything in advance.

use std::{sync::Arc, time::Duration};

use crate::{
    args::{Args, LeasePolicy},
    auditor::Rules,
    fault::FaultSet,
    mode::Mode,
    operation::Operation,
    sabotage::Sabotage,
    schedule::{Due, schedule},
    seed::Seed,
    step::Step,
};

/// Everything that is decided before the run begins.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) clients: u32,
    pub(crate) faults: FaultSet,
    pub(crate) lease: Duration,
    pub(crate) on_lease_ended: LeasePolicy,
    pub(crate) operations: Arc<[Operation]>,
    pub(crate) sabotage: Sabotage,
    pub(crate) seed: Seed,
    pub(crate) servers: u32,
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
            lease: args.lease,
            on_lease_ended: args.on_lease_ended,
            operations: operations.collect(),
            sabotage: args.sabotage.clone(),
            seed,
            servers: args.servers,
            verbose: args.verbose,
        }
    }

    /// The faults of a run in this mode.
    pub(crate) fn schedule(&self, mode: Mode) -> Vec<Due> {
        // Operations are numbered with a `u32`.
        let operations = u32::try_from(self.operations.len()).unwrap_or(u32::MAX);
        schedule(self.seed, operations, self.servers, &self.faults, &Step::of(mode))
    }

    /// The flags of the sample. Without its store it refuses calls, in every mode. Its default is to run them
    /// unprotected, which can make duplicates; the sample does not promise otherwise.
    pub(crate) fn flags(&self, mode: Mode) -> Vec<String> {
        let mut flags = vec!["--listen", "127.0.0.1:0", "--on-store-unavailable", "reject", "--mode", mode.as_str()];
        let lease = humantime::format_duration(self.lease).to_string();
        flags.extend(["--lease", &lease]);
        if mode == Mode::Reserved {
            flags.extend(["--on-lease-ended", self.on_lease_ended.as_str()]);
        }
        flags.into_iter().map(str::to_owned).collect()
    }

    /// The promises that apply in this mode.
    pub(crate) fn rules(&self, mode: Mode) -> Rules {
        Rules { lease: self.lease, mode, on_lease_ended: self.on_lease_ended }
    }
}
