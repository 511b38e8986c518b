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
    /// Whether an operation with these attempts may be executed again: `rerun` allows it where any fault may have kept
    /// its outcome from being recorded, `reconcile` where one may have held its handler up for a lease, so that it went
    /// on when the reconciler had looked.
    pub(super) fn allow_rerun(self, attempts: &[&Attempt], faults: &[Fault]) -> bool {
        match (self.mode, self.on_lease_ended) {
            (Mode::Reserved, LeasePolicy::Rerun) => self.hit(attempts, faults),
            (Mode::Reserved, LeasePolicy::Reconcile) => {
                let holds_up = |fault: &&Fault| fault.kind.spares_handlers() && fault.ended - fault.begun >= self.lease;
                let faults: Vec<_> = faults.iter().filter(holds_up).copied().collect();
                self.hit(attempts, &faults)
            }
            (Mode::Reserved, LeasePolicy::Refuse) | (Mode::Transactional, _) => false,
        }
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
