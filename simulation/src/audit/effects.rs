//! Whether each operation has happened once.

use std::collections::BTreeMap;

use tonic_idempotency::policy::ExpiredKeyPolicy;

use super::Audit;
use crate::plan::{End, Procedure};

impl Audit<'_> {
    /// Checks the effects under each key of each owner.
    pub(super) fn effects(&mut self) {
        let mut keys: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (number, run) in self.evidence.runs.iter().enumerate().filter(|(number, _)| self.committed[*number]) {
            keys.entry(self.key(run.operation)).or_default().push(number);
        }
        for runs in keys.into_values() {
            for pair in runs.windows(2) {
                if !self.may_follow(pair[0], pair[1]) {
                    let operation = self.evidence.runs[pair[1]].operation;
                    let seen = format!("operation {operation} has the effects of the runs {runs:?}");
                    self.broken("nothing happens twice", seen);
                }
            }
        }
    }

    /// Returns whether the effect of a run may follow that of another under the same key.
    fn may_follow(&self, first: usize, second: usize) -> bool {
        let [first, second] = [first, second].map(|number| &self.evidence.runs[number]);
        let policies = &self.plan.settings.policies;
        // That of a response counts from its completion, that of an unknown outcome from the claim.
        let is_unknown =
            self.excuses.is_lost(first.call) || first.ended.is_some_and(|(_, end)| end == End::ErrorAfterEffect);
        let counts_from = first.effect.filter(|_| !is_unknown).unwrap_or(first.began);
        let jumps = self.excuses.jumps(counts_from, second.began);
        // The retention is accurate to 1 %.
        let had_expired = policies.expired_keys == ExpiredKeyPolicy::Run
            && (second.began + jumps).saturating_sub(counts_from) >= policies.retention.mul_f64(0.98);
        let is_reserved = |operation| self.plan.operation(operation).procedure == Procedure::Send;
        had_expired
            || is_reserved(first.operation) && self.excuses.may_run_again(first)
            || is_reserved(second.operation) && self.excuses.is_unprotected(second)
    }
}
