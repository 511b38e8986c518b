//! Whether the limits of users are kept.

use super::Audit;
use crate::{
    ledger::HandlerRun,
    plan::{Procedure, Settings},
};

impl Audit<'_> {
    /// Checks that one transaction is left for other users whenever a handler begins.
    pub(super) fn limits(&mut self) {
        let most = most_transactions(&self.plan.settings);
        let has_transaction = |run: &&HandlerRun| self.plan.operation(run.operation).procedure == Procedure::Enter;
        let owner = |run: &HandlerRun| self.plan.operation(run.operation).owner();
        let runs: Vec<_> = self.evidence.runs.iter().filter(has_transaction).collect();
        let crowds = runs.iter().filter(|run| {
            let is_beside = |other: &&&HandlerRun| {
                let over = other.ended.map(|(at, _)| at).or(other.cut);
                other.began <= run.began
                    && over.is_none_or(|over| over > run.began)
                    && other.process.is(&run.process)
                    && owner(other) == owner(run)
            };
            runs.iter().filter(is_beside).count() > most
        });
        let crowds: Vec<_> = crowds.map(|run| (run.operation, run.began)).collect();
        for (operation, began) in crowds {
            let seen = format!("the user of operation {operation} has more than {most} transactions at {began:?}");
            self.broken("one user never has everything", seen);
        }
    }
}

/// Returns how many transactions one user may have in a process: all but one, if there is more than one.
pub(super) fn most_transactions(settings: &Settings) -> usize {
    // Beside claims, a quarter of the connections is theirs.
    let beside_claims = settings.connections - (settings.connections / 4).max(1);
    let all = settings.transaction_connections.unwrap_or(beside_claims);
    all.saturating_sub(1).max(1)
}
