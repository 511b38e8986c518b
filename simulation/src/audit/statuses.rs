//! Whether the statuses in answers are those of the work behind what their runs have created.

use std::time::Duration;

use tonic_idempotency::status::{IdempotencyStatus, OutboxStatus};

use super::Audit;
use crate::{
    ledger::{Answer, Says, StatusChange, Strike},
    plan::Kind,
};

/// The time within which a status that has changed shows, if nothing hinders it: a call may get the answer of one that has asked before.
const SHOWS: Duration = Duration::from_secs(1);

impl Audit<'_> {
    /// Checks the status of each answer that has to have one.
    pub(super) fn statuses(&mut self) {
        for answer in &self.evidence.answers {
            let Says::Done { run, is_replay, status, .. } = &answer.says else { continue };
            let operation = self.plan.operation(answer.operation);
            let is_bare = !operation.has_key || operation.is_delivered || self.plan.settings.client_journal;
            let is_true = match status {
                Some(status) => self.had_status(answer, *run, *is_replay, status),
                // Nothing is recorded of a run that is not protected.
                None => {
                    is_bare
                        || !is_replay && self.evidence.runs.get(*run).is_some_and(|it| self.excuses.is_unprotected(it))
                }
            };
            if !is_true {
                let seen = format!("operation {} heard of run {run} that it is {status:?}", answer.operation);
                self.broken("a status tells the truth", seen);
            }
        }
    }

    /// Returns whether the work behind what a run has created had this status when it was asked for.
    fn had_status(&self, answer: &Answer, run: usize, is_replay: bool, status: &str) -> bool {
        let creates = self.plan.operation(answer.operation).procedure.creates();
        let mut changes = self.evidence.statuses.iter().filter(|change| change.run == run);
        let is_final = |change: &StatusChange| matches!(change.status, OutboxStatus::Completed | OutboxStatus::Failed);
        let is_slow = |fault: &Strike| {
            fault.kind == Kind::SlowStatuses
                && fault.from <= answer.got
                && answer.sent <= fault.to + fault.trouble.status[1] + SHOWS
        };
        match status {
            "completed" if !creates => true,
            "processing" if creates && !is_replay => true,
            "processing" if creates => {
                !changes.any(|change| is_final(change) && change.at + SHOWS <= answer.sent)
                    || self.evidence.faults.iter().any(is_slow)
                    || self.is_hindered(answer)
            }
            _ => {
                let is_it = |change: &StatusChange| IdempotencyStatus::from(change.status).as_str() == status;
                creates
                    && is_replay
                    && changes.any(|change| is_final(change) && is_it(change) && change.at <= answer.got)
            }
        }
    }
}
