//! Whether calls of a Go server and of the others keep apart.

use std::time::Duration;

use tonic_idempotency::policy::ForeignPolicy;
use uuid::Uuid;

use super::Audit;
use crate::{
    go::FIRST_RUN,
    ledger::{Answer, GoRun, HandlerRun},
    plan::Operation,
};

impl Audit<'_> {
    /// Checks each run of a Go server against the runs with its key.
    pub(super) fn go(&mut self) {
        for go in &self.evidence.go_runs {
            let under = |run: &HandlerRun| self.key(run.operation) == self.key(go.operation);
            let mut runs =
                self.evidence.runs.iter().enumerate().filter(|(_, run)| under(run) && !self.may_meet(run, go));
            let broken = runs.find_map(|(number, run)| match () {
                () if go.is_done && self.committed[number] => Some(("nothing happens twice", number)),
                () if self.evidence.calls[run.call].arrived > go.from && go.to.is_none_or(|to| run.began < to) => {
                    Some(("calls of a key run one after the other", number))
                }
                () => None,
            });
            if let Some((promise, number)) = broken {
                let seen = format!(
                    "operation {}: run {number}, and a Go server from {:?} to {:?}",
                    go.operation, go.from, go.to
                );
                self.broken(promise, seen);
            }
        }
    }

    /// Returns whether a run and one of a Go server need not know of each other.
    fn may_meet(&self, run: &HandlerRun, go: &GoRun) -> bool {
        let policies = &self.plan.settings.policies;
        let is_reserved = self.plan.operation(run.operation).procedure.is_reserved();
        // The Go server's record is not kept for longer, whatever the policy for expired keys is.
        let taken = self.takes_key(run);
        let age = (taken + self.excuses.jumps(go.from, taken)).saturating_sub(go.from);
        // It has no lease of its own.
        let is_outlived =
            policies.on_foreign_reservation == ForeignPolicy::Rerun && age >= policies.lease.mul_f64(0.98);
        self.has_expired(run, go.from)
            || is_outlived
            || age >= policies.retention.mul_f64(0.98)
            || self.excuses.is_taken_back(run.operation, go.from.min(self.excuses.life(run.call).0), go.from.max(taken))
            || self.excuses.is_outrun(run)
            || is_reserved && self.excuses.may_run_again(run, go.from)
    }

    /// Returns whether a key that a Go server has reserved may have been taken from it by this time. How its call ends is then
    /// found out, or unknown.
    pub(super) fn may_be_taken_from_go(&self, key: (Uuid, Uuid), at: Duration) -> bool {
        let policies = &self.plan.settings.policies;
        let may_be_taken = |go: &GoRun| {
            go.from + policies.lease.mul_f64(0.98) <= at.saturating_add(self.excuses.jumps(go.from, at))
                && self.key(go.operation) == key
        };
        policies.on_foreign_reservation != ForeignPolicy::InProgress && self.evidence.go_runs.iter().any(may_be_taken)
    }

    /// Returns whether a Go server may have changed another's record meanwhile: its call has outlasted the lease after which its key is another's,
    /// and its last statement changes whatever row has no response, a final error among them.
    pub(super) fn may_go_meddle(&self, key: (Uuid, Uuid), from: Duration, to: Duration) -> bool {
        let policies = &self.plan.settings.policies;
        let meddles = |go: &GoRun| {
            let ended = go.to.unwrap_or(Duration::MAX);
            let age = ended.saturating_sub(go.from).saturating_add(self.excuses.jumps(go.from, ended));
            from <= ended && ended <= to && age >= policies.lease.mul_f64(0.98) && self.key(go.operation) == key
        };
        let may_be_taken = policies.on_foreign_reservation != ForeignPolicy::InProgress;
        self.excuses.uses("a Go server outlasted its lease", may_be_taken && self.evidence.go_runs.iter().any(meddles))
    }

    /// Returns whether a Go server has had an effect under the key of an operation.
    pub(super) fn go_has_run(&self, operation: &Operation) -> bool {
        let key = self.key(operation.number);
        self.evidence.go_runs.iter().any(|go| go.is_done && self.key(go.operation) == key)
    }

    /// Returns the run of a Go server that has this number, if its effect is there.
    pub(super) fn go_run(&self, number: u64) -> Option<&GoRun> {
        let place = usize::try_from(number.checked_sub(FIRST_RUN)?).ok()?;
        self.evidence.go_runs.get(place).filter(|go| go.is_done)
    }

    /// Returns whether a Go server had the key of an answer meanwhile.
    pub(super) fn is_with_go(&self, answer: &Answer) -> bool {
        self.evidence.go_runs.iter().any(|go| {
            self.key(go.operation) == self.key(answer.operation)
                && go.from <= answer.got
                && go.to.is_none_or(|to| to >= answer.sent)
        })
    }
}
