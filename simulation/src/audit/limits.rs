//! Whether the limits of users are kept.

use std::{collections::BTreeMap, time::Duration};

use tonic_idempotency::{policy::InProgressPolicy, rejection::Reason};

use super::Audit;
use crate::{
    database::{KEEPALIVES, SILENCE},
    ledger::{Answer, HandlerRun, Says, Strike},
    plan::{Kind, LENGTH, Procedure, Settings},
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

    /// Checks that the last crowd of each process is served: it has as many transactions at once as there are, and no call is turned away.
    pub(super) fn last_crowd(&mut self) {
        // A connection that is silent since then is found out when it is used, or when its keepalives are not answered.
        let is_felt = |fault: &Strike| match fault.kind {
            // It is not back yet.
            Kind::Restart => fault.to + self.plan.settings.timeout > LENGTH,
            Kind::FailOver
            | Kind::LoseCommits(_)
            | Kind::Outage
            | Kind::SilenceDatabase(_)
            | Kind::SplitDatabase(_)
            | Kind::StormDatabase(_) => self.excuses.is_not_heard(fault) || fault.to + SILENCE + KEEPALIVES > LENGTH,
            _ => false,
        };
        if self.evidence.faults.iter().any(is_felt) {
            return;
        }
        let is_last = |operation: usize| self.plan.operation(operation).is_last;
        let aborts = self.plan.settings.policies.on_in_progress == InProgressPolicy::Abort;
        let is_served = |answer: &Answer| match &answer.says {
            // `refusals` judges it.
            Says::Done { .. } | Says::Refused(Reason::NotStored) => true,
            Says::Refused(Reason::InProgress) => aborts,
            // One is more than there are transactions for.
            Says::Refused(Reason::Overloaded) => self.plan.operation(answer.operation).procedure == Procedure::Enter,
            _ => false,
        };
        let turned_away = self.evidence.answers.iter().filter(|it| is_last(it.operation) && !is_served(it));
        let turned_away: Vec<_> = turned_away
            .map(|answer| format!("operation {} of the last crowd heard {:?}", answer.operation, answer.says))
            .collect();
        let most = self.plan.settings.transactions();
        let has_transaction = |run: &HandlerRun| self.plan.operation(run.operation).procedure == Procedure::Enter;
        let mut crowds: BTreeMap<usize, Vec<&HandlerRun>> = BTreeMap::new();
        for run in self.evidence.runs.iter().filter(|run| is_last(run.operation) && has_transaction(run)) {
            crowds.entry(self.plan.operation(run.operation).server).or_default().push(run);
        }
        let at_once = |runs: &[&HandlerRun]| {
            let is_beside =
                |run: &HandlerRun, at: Duration| run.began <= at && run.ended.is_none_or(|(ended, _)| ended > at);
            runs.iter().map(|run| runs.iter().filter(|it| is_beside(it, run.began)).count()).max().unwrap_or_default()
        };
        // A handler of before may still have one.
        let is_free = |runs: &[&HandlerRun]| {
            let has_one = |it: &&HandlerRun| {
                let over = it.ended.map(|(at, _)| at).or(it.cut);
                let is_other = !is_last(it.operation) && it.process.is(&runs[0].process);
                is_other && has_transaction(it) && over.is_none_or(|over| over >= runs[0].began)
            };
            !self.evidence.runs.iter().any(|it| has_one(&it))
        };
        let limited: Vec<_> = crowds
            .iter()
            .filter(|(_, runs)| is_free(runs))
            .map(|(server, runs)| (server, at_once(runs), runs.len().min(most)))
            .filter(|(_, seen, expected)| seen != expected)
            .map(|(server, seen, expected)| format!("server {server} runs {seen} transactions at once, not {expected}"))
            .collect();
        for seen in turned_away.into_iter().chain(limited) {
            self.broken("the last crowd is served", seen);
        }
    }
}

/// Returns how many transactions one user may have in a process: all but one, if there is more than one.
pub(super) fn most_transactions(settings: &Settings) -> usize {
    settings.transactions().saturating_sub(1).max(1)
}
