//! Whether each operation has happened once.

use std::{collections::BTreeMap, time::Duration};

use tonic_idempotency::policy::ExpiredKeyPolicy;

use super::Audit;
use crate::{ledger::HandlerRun, plan::Procedure};

impl Audit<'_> {
    /// Checks the effects under each key of each owner.
    pub(super) fn effects(&mut self) {
        let mut keys: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (number, run) in self.evidence.runs.iter().enumerate().filter(|(number, _)| self.committed[*number]) {
            keys.entry(self.key(run.operation)).or_default().push(number);
        }
        for mut runs in keys.into_values() {
            runs.sort_by_key(|number| self.takes_key(&self.evidence.runs[*number]));
            for (place, second) in runs.iter().enumerate() {
                let first = runs[..place].iter().find(|first| !self.may_follow(**first, *second));
                if let Some(first) = first {
                    let operation = self.evidence.runs[*second].operation;
                    let seen = format!("operation {operation} has the effects of the runs {first} and {second}");
                    self.broken("nothing happens twice", seen);
                }
            }
        }
    }

    /// Returns whether the effect of a run may follow that of another under the same key.
    fn may_follow(&self, first: usize, second: usize) -> bool {
        let [first, second] = [first, second].map(|number| &self.evidence.runs[number]);
        let is_reserved = |operation| self.plan.operation(operation).procedure.is_reserved();
        self.has_expired(first, self.takes_key(second))
            || self.may_go_meddle(self.key(first.operation), first.began, self.takes_key(second))
            || is_reserved(first.operation) && self.excuses.may_run_again(first, self.takes_key(second))
            || is_reserved(second.operation) && self.excuses.is_unprotected(second)
            || self.excuses.is_outrun(first)
            || self.excuses.is_outrun(second)
    }

    /// Returns when a run takes its key: a transaction does when it records its response, and the record of a call in the other mode, which did
    /// not see its lock, may have expired by then.
    pub(super) fn takes_key(&self, run: &HandlerRun) -> Duration {
        let is_transactional = self.plan.operation(run.operation).procedure == Procedure::Enter;
        run.ended.filter(|_| is_transactional).map_or(run.began, |(at, _)| at)
    }

    /// Returns whether the record of a run may have expired at a time, and its key may be used again.
    pub(super) fn has_expired(&self, run: &HandlerRun, at: Duration) -> bool {
        let policies = &self.plan.settings.policies;
        // That of a response counts from its completion, that of an unknown outcome from the claim.
        let is_unknown = self.excuses.is_lost(run.call) || self.excuses.is_unknown(run);
        let counts_from = run.effect.filter(|_| !is_unknown).unwrap_or(run.began);
        let jumps = self.excuses.jumps(counts_from, at);
        // The retention is accurate to 1 %.
        policies.expired_keys == ExpiredKeyPolicy::Run
            && (at + jumps).saturating_sub(counts_from) >= policies.retention.mul_f64(0.98)
    }
}
