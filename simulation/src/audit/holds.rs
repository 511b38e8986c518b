//! Whether the keys of the calls that there are, and no others, are reserved: seen now and then.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use uuid::Uuid;

use super::Audit;
use crate::{
    ledger::{Answer, HandlerRun, Says},
    plan::{Procedure, caller},
};

/// The owner and the key of a record.
type Id = (Uuid, Uuid);

impl Audit<'_> {
    /// Checks all looks at the reserved keys.
    pub(super) fn holds(&mut self) {
        let ids: BTreeMap<usize, Id> =
            self.plan.operations.iter().filter_map(|it| Some((it.number, self.id_of(it.number)?))).collect();
        let mut calls: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
        for (number, call) in self.evidence.calls.iter().enumerate() {
            let id = ids.get(&self.evidence.attempts[call.attempt]);
            id.into_iter().for_each(|id| calls.entry(*id).or_default().push(number));
        }
        for (at, held) in &self.evidence.reserved {
            let is_stuck = |id: &&Id| {
                let calls = calls.get(*id).map(Vec::as_slice).unwrap_or_default();
                let operation = ids.iter().find(|(_, its)| its == id).map(|(operation, _)| self.key(*operation));
                !calls.iter().any(|call| self.may_be_held_by(*call, *at))
                    && !operation.is_some_and(|key| self.may_be_taken_from_go(key, *at))
            };
            if let Some((_, key)) = held.iter().find(is_stuck) {
                let seen = format!("the key {key} is reserved at {at:?}, and no call can have it");
                return self.broken("a key is free when its call is over", seen);
            }
            let free = self.evidence.runs.iter().position(|run| self.lacks_key(run, *at, held, &ids));
            if let Some(number) = free {
                let operation = self.evidence.runs[number].operation;
                let seen = format!("run {number} of operation {operation} has none at {at:?}");
                return self.broken("a handler has its key", seen);
            }
        }
    }

    /// Returns whether a call may have its key, or the recovery may have it to find out how the call has ended.
    fn may_be_held_by(&self, number: usize, at: Duration) -> bool {
        let call = &self.evidence.calls[number];
        // A run whose release was lost is as open as one that has had its effect: the next one of the key cannot end it.
        let is_open = |run: &HandlerRun| {
            run.call == number && (self.excuses.is_unknown(run) || self.excuses.release_waits(run).is_some())
        };
        // It is answered when its key is released, unless its client gave it up before.
        let is_told = |answer: &Answer| {
            self.is_of(answer, call.attempt)
                && !matches!(answer.says, Says::Nothing | Says::Unresolved)
                && answer.got <= at
        };
        let waits = |run: &HandlerRun| {
            run.call == number
                && self.excuses.release_waits(run).is_some_and(|until| until >= at)
                && !self.evidence.answers.iter().any(is_told)
        };
        call.arrived <= at && call.left.is_none_or(|left| left >= at)
            || self.evidence.runs.iter().any(waits)
            || self.plan.settings.reconciles() && self.evidence.runs.iter().any(is_open)
            || self.may_hold(number, at.saturating_sub(self.excuses.queued_commits(at)), at)
    }

    /// Returns whether a run goes on without its key, and nothing can have taken it.
    fn lacks_key(&self, run: &HandlerRun, at: Duration, held: &BTreeSet<Id>, ids: &BTreeMap<usize, Id>) -> bool {
        let over = run.ended.map(|(at, _)| at).or(run.cut);
        let is_there = |id: &Id| held.contains(id);
        let is_mixed = || {
            self.plan
                .operations
                .iter()
                .any(|it| self.key(it.number) == self.key(run.operation) && it.procedure == Procedure::Enter)
        };
        run.began < at
            && over.is_none_or(|over| over > at)
            && self.plan.operation(run.operation).procedure.is_reserved()
            && self.plan.operation(run.operation).has_key
            && !ids.get(&run.operation).is_none_or(is_there)
            && !is_mixed()
            && !self.excuses.killed(&self.evidence.calls[run.call]).any(|killed| killed <= at)
            && !self.excuses.has_lapsed(run.call, at)
            && !self.excuses.are_commits_queued(at)
            && !self.excuses.is_unprotected(run)
            && !self.excuses.is_taken_back_since(run, at)
            && !self.may_go_meddle(self.key(run.operation), run.began, at)
            && !self.has_expired(run, at)
    }

    /// Returns the owner and the key of an operation, as a record has them.
    fn id_of(&self, operation: usize) -> Option<Id> {
        let operation = self.plan.operation(operation);
        let owner = operation.user.map(|user| *caller(user, operation.scope).owner().as_uuid());
        owner.map(|owner| (owner, operation.stored))
    }
}
