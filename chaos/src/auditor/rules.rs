//! The promises that depend on the mode and the policy.

use std::time::Duration;

use crate::{
    args::LeasePolicy,
    journal::{Attempt, Fault, Whom},
    mode::Mode,
};

/// The mode and the policy that decide what the service promises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) lease: Duration,
    pub(crate) mode: Mode,
    pub(crate) on_lease_ended: LeasePolicy,
}

impl Rules {
    /// Whether an operation with these attempts may be executed again. `rerun` allows it if any fault may have kept the
    /// outcome from being recorded. `reconcile` allows it if a fault may have held up the handler for a lease, so that
    /// the handler went on after the reconciler had looked.
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

    /// Whether the service may answer that the outcome of an operation is unknown.
    pub(super) fn allow_unknown(self) -> bool {
        self.mode == Mode::Reserved
    }

    /// Whether a fault may have hit one of these attempts, or the server's work for it after the client had its answer.
    /// That work takes at most as long as the lease.
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
