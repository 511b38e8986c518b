//! Whether anything is left when all is over.

use super::Audit;
use crate::ledger::HandlerRun;

impl Audit<'_> {
    pub(super) fn leftovers(&mut self) {
        if self.evidence.panics > 0 {
            self.broken("nothing panics", format!("{} panics that no plan wants", self.evidence.panics));
        }
        for seen in &self.evidence.leftovers {
            let promise = if seen.ends_with("stuck") { "no key is stuck" } else { "nothing is left" };
            self.broken(promise, seen.clone());
        }
        for (process, stopped) in &self.evidence.stopped {
            let is_later = |run: &&HandlerRun| {
                // Without a key it is its server that waits for its end.
                self.plan.operation(run.operation).has_key
                    && run.process.is(process)
                    && (run.began > *stopped || run.ended.is_some_and(|(time, _)| time > *stopped))
            };
            if let Some(run) = self.evidence.runs.iter().find(is_later) {
                let seen =
                    format!("a call of operation {} goes on after {process:?} has been shut down", run.operation);
                self.broken("nothing is left", seen);
            }
        }
    }
}
