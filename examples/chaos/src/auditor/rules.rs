use std::time::Duration;

use crate::{
    args::{LeasePolicy, Mode},
    journal::{Attempt, Fault, Whom},
};

/// What the service promises in a mode, and under a policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) lease: Duration,
    pub(crate) mode: Mode,
    pub(crate) on_lease_ended: LeasePolicy,
}

impl Rules {
    /// Whether an operation may be executed again, where a fault may have kept its outcome from being recorded.
    pub(super) fn allow_reruns(self) -> bool {
        self.mode == Mode::Reserved && self.on_lease_ended == LeasePolicy::Rerun
    }

    /// Whether the service may answer that it does not know what became of an operation.
    pub(super) fn allow_unknown(self) -> bool {
        self.mode == Mode::Reserved
    }

    /// Whether a fault may have hit one of these attempts, or what the server still did for it when the client had its
    /// answer: at most as long as the lease.
    pub(super) fn hit(self, attempts: &[&Attempt], faults: &[Fault]) -> bool {
        attempts.iter().any(|attempt| {
            let until = attempt.ended.as_ref().map_or(Duration::MAX, |(ended, _)| *ended + self.lease);
            let near = |fault: &&Fault| fault.begun <= until && fault.ended >= attempt.begun;
            faults.iter().filter(near).any(|fault| match fault.whom {
                _ if fault.kind.is_of_clients() => false,
                Whom::All => true,
                Whom::Server(server) => server == attempt.server,
                Whom::Slot(slot) => slot == attempt.server.slot,
            })
        })
    }
}
