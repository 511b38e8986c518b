//! Whether handlers run when they may, one at a time, and to their end.

use std::time::Duration;

use tonic::Code;
use tonic_idempotency::policy::{DisconnectPolicy, ExpiredKeyPolicy, LeasePolicy};

use super::{
    Audit,
    excuses::{SKEW, TICK},
};
use crate::{
    ledger::{Answer, Call, HandlerRun, Says},
    plan::{End, Procedure},
    service::run_of_error,
};

/// The time within which a run hears that another run has its key, beyond a third of a lease and the timeout of the store.
const TOLD: Duration = Duration::from_secs(2);

/// The longest time between the arrival of a call and the look at its key.
const LATE: Duration = Duration::from_secs(5);

impl Audit<'_> {
    /// Checks each run.
    pub(super) fn runs(&mut self) {
        let policies = &self.plan.settings.policies;
        for (number, run) in self.evidence.runs.iter().enumerate() {
            let operation = self.plan.operation(run.operation);
            if operation.user.is_none() {
                self.broken("nobody acts without a user", format!("run {number} of operation {}", run.operation));
            }
            let arrived = self.evidence.calls[run.call].arrived;
            let age = self.excuses.age(operation.stored, arrived);
            let [_, behind] = self.excuses.wall_clocks(arrived, run.began);
            if operation.has_key
                && policies.expired_keys == ExpiredKeyPolicy::Refuse
                && age > policies.retention + SKEW + LATE + behind
            {
                self.broken("an expired key does not run", format!("run {number} of operation {}", run.operation));
            }
            if !run.had_key && !self.may_lack_key(run) {
                self.broken("a handler has its key", format!("run {number} of operation {} begins", run.operation));
            }
            if run.cut.is_some_and(|cut| !self.may_be_cut(run, cut)) {
                self.broken("no handler is cut off", format!("run {number} of operation {}", run.operation));
            }
            if self.lasts_too_long(run) {
                self.broken("every handler ends", format!("run {number} of operation {}", run.operation));
            }
            if operation.procedure == Procedure::Enter
                && self.committed[number]
                && run.ended.is_some_and(|(_, end)| end != End::Response)
            {
                self.broken("nothing is left of a failure", format!("run {number} of operation {}", run.operation));
            }
            if self.is_left_and_committed(number, run) {
                let seen = format!("run {number} of operation {} was left by its client", run.operation);
                self.broken("nothing is left of a call whose client went", seen);
            }
            if run.lost_lease.is_some_and(|at| !self.may_lose_lease(run, at)) {
                self.broken("a lost lease is told", format!("run {number} has not lost its lease, and hears of it"));
            }
            if let Some(second) = self.evidence.runs.iter().position(|other| self.has_not_heard(run, other)) {
                let seen = format!("run {number} heeds its lease, and goes on beside run {second}");
                self.broken("a lost lease is told", seen);
            }
            for (second, other) in self.evidence.runs.iter().enumerate().skip(number + 1) {
                if self.key(other.operation) == self.key(run.operation) && !self.may_run_beside(run, other) {
                    let seen = format!("runs {number} and {second} of operation {}", run.operation);
                    self.broken("calls of a key run one after the other", seen);
                }
            }
        }
        for answer in &self.evidence.answers {
            let Some(run) = self.told_of(answer).map(|run| &self.evidence.runs[run]) else { continue };
            let again = self.evidence.runs.iter().position(|other| {
                other.began > answer.got
                    && self.key(other.operation) == self.key(run.operation)
                    && !self.may_run_after(run, answer.got, other)
            });
            if let Some(again) = again {
                let seen =
                    format!("operation {} heard {:?}, and then run {again} began", answer.operation, answer.says);
                self.broken("a final answer is final", seen);
            }
        }
    }

    /// Returns whether a run may begin although its key is not reserved, or is not any more.
    fn may_lack_key(&self, run: &HandlerRun) -> bool {
        let arrived = self.evidence.calls[run.call].arrived;
        let operation = self.plan.operation(run.operation);
        operation.procedure == Procedure::Enter
            || !operation.has_key
            || self.excuses.is_unprotected(run)
            || self.excuses.is_taken_back_since(run, run.began)
            || self.may_go_meddle(self.key(run.operation), arrived, run.began)
            || self.excuses.is_paused(run.call, arrived, run.began)
            || self.excuses.jumps(arrived, run.began) > Duration::ZERO
    }

    /// Returns whether a run has its effect although its client went before it ended, and the policy is to roll it back.
    fn is_left_and_committed(&self, number: usize, run: &HandlerRun) -> bool {
        let operation = self.plan.operation(run.operation);
        operation.procedure == Procedure::Enter
            && operation.has_key
            && !operation.is_delivered
            && operation.behaviour(run.count).is_left
            && self.plan.settings.policies.on_disconnect == DisconnectPolicy::RollBack
            && self.committed[number]
            && run.ended.is_some_and(|(ended, _)| self.evidence.calls[run.call].left.is_some_and(|left| left <= ended))
    }

    /// Returns whether a run goes on although its time is up.
    fn lasts_too_long(&self, run: &HandlerRun) -> bool {
        let operation = self.plan.operation(run.operation);
        let call = &self.evidence.calls[run.call];
        let until = self.excuses.time_is_up(run) + TOLD;
        let over = run.ended.map(|(at, _)| at).or(run.cut).unwrap_or(Duration::MAX);
        // What the layer passes through is not its own.
        (operation.has_key || operation.procedure == Procedure::Enter)
            && over > until
            && !self.excuses.killed(call).any(|killed| killed <= until)
            && !self.evidence.stopped.iter().any(|(process, at)| process.is(&call.process) && *at <= until)
            && !self.excuses.is_paused(run.call, call.arrived, over)
    }

    /// Returns whether a run may hear by this time that its lease is lost.
    fn may_lose_lease(&self, run: &HandlerRun, at: Duration) -> bool {
        // What a process hears after it was killed goes nowhere.
        self.excuses.killed(&self.evidence.calls[run.call]).any(|killed| killed <= at)
            || at + TICK >= self.excuses.time_is_up(run)
            // It could not be renewed in time.
            || self.excuses.is_hindered(run.call, at.saturating_sub(self.plan.settings.policies.lease), at)
            || self.excuses.is_taken_back_since(run, at)
            || self.may_go_meddle(self.key(run.operation), run.began, at)
            || self.excuses.jumps(self.evidence.calls[run.call].arrived, at) > Duration::ZERO
    }

    /// Returns whether a run that waits to hear that its lease is lost goes on although another run has taken the key over.
    fn has_not_heard(&self, run: &HandlerRun, other: &HandlerRun) -> bool {
        let operation = self.plan.operation(run.operation);
        let behaviour = operation.behaviour(run.count);
        let settings = &self.plan.settings;
        // The next renewal finds out.
        let heard = other.began + settings.policies.lease / 3 + settings.timeout + TOLD;
        let works_until = run.began + behaviour.before;
        behaviour.heeds_lease
            && operation.procedure.is_reserved()
            && operation.has_key
            && self.key(other.operation) == self.key(run.operation)
            && self.plan.operation(other.operation).procedure.is_reserved()
            && run.began < other.began
            && heard < works_until
            && run.lost_lease.is_none_or(|lost| lost > heard)
            && run.ended.is_some_and(|(ended, _)| ended > heard)
            && !self.excuses.killed(&self.evidence.calls[run.call]).any(|killed| killed <= heard)
            && !self.excuses.is_hindered(run.call, other.began, heard)
            && !self.excuses.is_unprotected(run)
            && !self.excuses.is_unprotected(other)
    }

    /// A transactional run ends with its client, if the policy says so.
    fn may_be_cut(&self, run: &HandlerRun, cut: Duration) -> bool {
        let operation = self.plan.operation(run.operation);
        let call = &self.evidence.calls[run.call];
        if self.excuses.time_was_up(run).is_some() {
            return true;
        }
        let is_over = operation.tells_patience
            && cut + Duration::from_secs(1) >= call.arrived + operation.patience.mul_f64(operation.told);
        (operation.procedure == Procedure::Enter
            && self.plan.settings.policies.on_disconnect == DisconnectPolicy::RollBack
            || !operation.has_key)
            && (is_over || call.left.is_some_and(|left| left <= cut))
    }

    /// Returns whether a run that has begun later may have begun before this one was over.
    fn may_run_beside(&self, run: &HandlerRun, other: &HandlerRun) -> bool {
        let is_reserved = self.plan.operation(run.operation).procedure.is_reserved();
        // If its time was up, its key is free when its lease has ended by itself.
        let is_left =
            is_reserved && run.ended.is_none() && self.excuses.time_was_up(run).is_some_and(|cut| cut <= other.began);
        let ended = run.ended.map(|(at, _)| at).or(run.cut.filter(|_| !is_left));
        let died = self.excuses.killed(&self.evidence.calls[run.call]).filter(|at| *at >= run.began).min();
        // The handler of a process that was killed goes on unnoticed.
        let over = ended.into_iter().chain(died).min().unwrap_or(Duration::MAX);
        let policies = &self.plan.settings.policies;
        let may_be_freed = match self.plan.operation(run.operation).procedure {
            Procedure::Send | Procedure::Insert => {
                (is_left || policies.on_lease_ended == LeasePolicy::Rerun)
                    && self.excuses.has_lapsed(run.call, other.began)
                    || self.excuses.is_unprotected(run)
            }
            // The transaction of one of them is gone, and the handler has not noticed.
            Procedure::Enter => {
                let begun = run.began.saturating_sub(self.plan.settings.timeout);
                let arrived = self.evidence.calls[other.call].arrived;
                self.excuses.is_hindered(run.call, begun, other.began)
                    || self.excuses.is_hindered(other.call, arrived, other.began)
                    || other.began - run.began >= policies.transaction_idle.mul_f64(0.9)
            }
        };
        // A call in the other mode does not see the lock. The first committed record wins, and of the other call nothing is left.
        let is_mixed = self.plan.operation(run.operation).procedure.is_reserved()
            != self.plan.operation(other.operation).procedure.is_reserved();
        other.began >= over
            || may_be_freed
            || self.excuses.is_taken_back_since(run, other.began)
            || self.may_go_meddle(self.key(run.operation), run.began, other.began)
            || is_mixed
            || self.excuses.is_unprotected(other)
            || self.excuses.is_outrun(run)
            || self.excuses.is_outrun(other)
            || self.has_expired(run, other.began)
    }

    /// Returns the number of the run that an answer is the outcome of, if it is final.
    pub(super) fn told_of(&self, answer: &Answer) -> Option<usize> {
        let number = match &answer.says {
            Says::Done { run, .. } => Some(*run),
            Says::Failed(Code::FailedPrecondition, message) if !self.plan.settings.policies.final_errors.is_empty() => {
                run_of_error(message)
            }
            _ => None,
        };
        number.filter(|number| *number < self.evidence.runs.len())
    }

    /// Returns whether a run may begin although a client was told of another one, which was final.
    pub(super) fn may_run_after(&self, run: &HandlerRun, told: Duration, other: &HandlerRun) -> bool {
        let policies = &self.plan.settings.policies;
        let is_error = run.ended.is_some_and(|(_, end)| end == End::FinalError);
        let is_reserved = self.plan.operation(run.operation).procedure.is_reserved();
        // An error had no effect, so a reconciler has the call run again.
        let may_be_freed = is_reserved
            && (policies.on_lease_ended == LeasePolicy::Rerun || is_error)
            && (self.excuses.is_killed(run.call)
                || self.excuses.has_lapsed(run.call, Duration::MAX) && self.is_taken_over(run));
        // The other mode does not see the lock of a transaction that has begun before. Or the transaction is gone, and its call, which has
        // just heard that it began, has not noticed: it can commit nothing.
        let arrived = self.evidence.calls[other.call].arrived;
        let was_locked = self.plan.operation(other.operation).procedure == Procedure::Enter
            && arrived <= told
            && (is_reserved || self.excuses.is_hindered(other.call, arrived, other.began));
        may_be_freed
            || self.excuses.is_taken_back_since(run, other.began)
            || self.may_go_meddle(self.key(run.operation), run.began, other.began)
            || was_locked
            || self.excuses.is_unprotected(run)
            || self.excuses.is_unprotected(other)
            || self.has_expired(run, other.began)
    }

    /// Returns whether another call, or the recovery, may have taken a key over before the outcome of this run was recorded.
    fn is_taken_over(&self, run: &HandlerRun) -> bool {
        let (held, settled) = self.excuses.life(run.call);
        let takes_over = |(number, call): (usize, &Call)| {
            number != run.call
                && call.arrived <= settled
                && call.left.is_none_or(|left| left >= held)
                && self.key(self.evidence.attempts[call.attempt]) == self.key(run.operation)
                && (self.excuses.is_killed(number)
                    || self.evidence.runs.iter().any(|it| it.call == number && it.began > run.began)
                    // Its claim was answered too late to begin a run.
                    || self.excuses.is_hindered(number, run.began, settled)
                        && !self.evidence.runs.iter().any(|it| it.call == number))
        };
        self.plan.settings.policies.on_lease_ended == LeasePolicy::Reconcile
            || self.evidence.calls.iter().enumerate().any(takes_over)
    }
}
