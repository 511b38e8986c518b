//! Whether calls wait only for others that have their key, and not for ever.

use std::time::Duration;

use tonic_idempotency::{policy::InProgressPolicy, rejection::Reason};

use super::Audit;
use crate::{
    database::{KEEPALIVES, SILENCE},
    ledger::{Answer, Call, HandlerRun, Says, Strike},
    plan::{Kind, LENGTH, Pace, Procedure},
};

/// The time that a call waits for what is full.
const FULL: Duration = Duration::from_secs(5);

impl Audit<'_> {
    /// Checks how long calls wait, and for which others.
    pub(super) fn waits(&mut self) {
        for (number, call) in self.evidence.calls.iter().enumerate() {
            let is_run = self.evidence.runs.iter().any(|run| run.call == number);
            let body = match self.plan.operation(self.evidence.attempts[call.attempt]).body {
                Pace::AtOnce => Duration::ZERO,
                _ => self.plan.settings.body_timeout,
            };
            let longest = match self.plan.settings.policies.on_in_progress {
                InProgressPolicy::Wait => self.plan.settings.policies.max_wait.min(self.told_deadline(call)),
                _ => Duration::ZERO,
            } + 3 * self.plan.settings.timeout
                + body
                + FULL
                + self.excuses.waits_for_keys(call, call.left.unwrap_or(Duration::MAX));
            let Some(left) = call.left.filter(|left| *left - call.arrived > longest && !is_run) else { continue };
            if !self.excuses.is_hindered(number, call.arrived, left) && !self.stands_in_line(call, left - longest, left)
            {
                let seen =
                    format!("operation {} from {:?} to {left:?}", self.evidence.attempts[call.attempt], call.arrived);
                self.broken("waiting has an end", seen);
            }
        }
        for answer in &self.evidence.answers {
            if answer.says == Says::Refused(Reason::InProgress)
                && !self.is_with_go(answer)
                && !self.is_in_progress(answer)
            {
                let seen = format!("operation {} heard at {:?} that it is in progress", answer.operation, answer.got);
                self.broken("a key is free when its call is over", seen);
            }
        }
    }

    /// Returns the time that a caller leaves the server, as far as it tells it.
    fn told_deadline(&self, call: &Call) -> Duration {
        let operation = self.plan.operation(self.evidence.attempts[call.attempt]);
        match operation.tells_patience && call.arrived < LENGTH {
            true => operation.patience.mul_f64(operation.told),
            false => Duration::MAX,
        }
    }

    /// Returns whether a delivery may have waited in the line, which all operations of a layer share: others ran meanwhile, or were refused after
    /// a wait of their own.
    fn stands_in_line(&self, call: &Call, from: Duration, to: Duration) -> bool {
        let operation = |attempt: usize| self.plan.operation(self.evidence.attempts[attempt]);
        let is_before = |run: &HandlerRun| {
            let other = operation(run.attempt);
            other.is_delivered
                && run.process.is(&call.process)
                && run.began <= to
                && run.ended.map(|(at, _)| at).or(run.cut).is_none_or(|at| at >= from)
        };
        let is_served = |other: &Call| {
            let operation = operation(other.attempt);
            operation.is_delivered
                && other.process.is(&call.process)
                && other.left.is_some_and(|left| from <= left && left < to)
        };
        operation(call.attempt).is_delivered
            && (self.evidence.runs.iter().any(is_before) || self.evidence.calls.iter().any(is_served))
    }

    /// Returns whether another call may have had the key.
    fn is_in_progress(&self, answer: &Answer) -> bool {
        let own = self.evidence.calls.iter().rposition(|call| self.is_of(answer, call.attempt));
        (0..self.evidence.calls.len())
            // An attempt of its own that was given up may have the key for a moment.
            .filter(|number| {
                let arrived = self.evidence.calls[*number].arrived;
                Some(*number) != own
                    || self.excuses.is_hindered(*number, arrived, answer.got)
                    || self.excuses.may_be_silent(*number, answer.got)
            })
            .filter(|number| {
                let operation = self.evidence.attempts[self.evidence.calls[*number].attempt];
                self.key(operation) == self.key(answer.operation)
            })
            .any(|number| self.may_hold(number, answer.sent, answer.got))
    }

    /// Returns whether the recovery has certainly found out before this time how a call has ended: nothing was in its way, and it was told.
    fn is_recovered_before(&self, number: usize, at: Duration) -> bool {
        let settings = &self.plan.settings;
        let call = &self.evidence.calls[number];
        let key = self.key(self.evidence.attempts[call.attempt]);
        let of_key = |run: &&HandlerRun| self.key(run.operation) == key;
        let ended = self.evidence.runs.iter().filter(of_key).map(|run| run.ended.map(|(at, _)| at).or(run.cut));
        let killed = self.excuses.killed(call).max();
        // An effect that was sent and has not arrived is not known: the reconciler says so each time.
        let is_told = self.evidence.runs.iter().filter(of_key).all(|run| run.effect.is_some() || !run.is_sent);
        let Some(ended) =
            ended.chain([Some(self.excuses.life(number).1), killed.or(Some(Duration::ZERO))]).max().flatten()
        else {
            return false;
        };
        let is_alone = self.plan.operations.iter().filter(|it| self.key(it.number) == key).count() == 1;
        let until = ended
            .saturating_add(settings.policies.lease + 2 * settings.recovery + 3 * settings.timeout + FULL)
            .saturating_add(self.excuses.set_back(at));
        let disturbs = |fault: &Strike| match fault.kind {
            Kind::Kill(_) | Kind::Stop(_) => ended < fault.from,
            kind if kind.is_of_clients() => false,
            _ => fault.to + settings.timeout >= ended,
        };
        let is_quiet = !self.evidence.faults.iter().any(|fault| fault.from <= at && disturbs(fault));
        is_told && is_alone && is_quiet && until < at
    }

    /// Returns whether a call may have had its key at some time between these.
    pub(super) fn may_hold(&self, number: usize, from: Duration, to: Duration) -> bool {
        let call = &self.evidence.calls[number];
        let policies = &self.plan.settings.policies;
        let (_, settled) = self.excuses.life(number);
        // The recovery takes over what was lost, or abandoned, at its own time.
        let is_abandoned = |run: &HandlerRun| run.call == number && self.excuses.is_unknown(run);
        let is_recovered = self.plan.settings.reconciles()
            && !call.is_behind
            && (self.excuses.is_lost(number) || self.evidence.runs.iter().any(is_abandoned))
            && !self.is_recovered_before(number, from);
        let is_transactional = self.plan.operation(self.evidence.attempts[call.attempt]).procedure == Procedure::Enter;
        let killed = self.excuses.killed(call).filter(|at| call.arrived <= *at && *at <= settled).min();
        // Until the server finds out that the client is gone.
        let noticed = policies.transaction_idle.max(SILENCE + KEEPALIVES) + FULL;
        let until = match killed {
            Some(at) => at + policies.lease.max(noticed),
            // A claim that is late reserves the key for a lease more.
            None if self.excuses.may_claim_late(number) => settled.saturating_add(2 * policies.lease),
            // Its attempts have no effect after the timeout.
            None if call.is_behind && !is_transactional => {
                call.left.unwrap_or(call.arrived) + self.plan.settings.timeout
            }
            None if is_transactional && self.excuses.is_silenced(number, call.arrived, settled) => {
                settled.saturating_add(noticed)
            }
            None => settled,
        };
        let until = until.saturating_add(self.excuses.set_back(to));
        // What went back may be a reservation, of which a lease is left.
        let left = match self.plan.settings.reconciles() {
            true => from,
            false => policies.lease + self.excuses.set_back(to),
        };
        let operation = self.evidence.attempts[call.attempt];
        let is_taken_back = self.excuses.is_taken_back(operation, from.saturating_sub(left), to);
        call.arrived <= to && (is_recovered || is_taken_back || until >= from)
    }
}
