//! Whether each refusal of the layer has its cause.

use std::{collections::BTreeSet, time::Duration};

use tonic_idempotency::{
    policy::{ExpiredKeyPolicy, LeasePolicy},
    rejection::Reason,
};

use super::{Audit, excuses::SKEW, limits};
use crate::{
    ledger::{Answer, HandlerRun, Strike},
    plan::{End, Kind, Operation, Pace, Procedure},
    world::Process,
};

/// How long a server's allowance of records counts.
const ALLOWANCE: Duration = Duration::from_secs(20);

/// The least limit of a user, if limits are narrow.
const FEW: usize = 3;

impl Audit<'_> {
    pub(super) fn about_refused(&self, answer: &Answer, reason: Reason, operation: &Operation) -> Option<&'static str> {
        let others =
            || self.plan.operations.iter().filter(|other| self.key(other.number) == self.key(operation.number));
        let is_hindered = || self.is_hindered(answer);
        match reason {
            Reason::KeyReused if others().count() > 1 => None,
            Reason::KeyExpired if self.may_be_expired(answer, operation) => None,
            Reason::NoUser if operation.user.is_none() => None,
            Reason::NotStored
                if self.is_not_stored(operation) || self.may_be_unreadable("not_stored", operation, answer.got) =>
            {
                None
            }
            Reason::TooManyRecords if self.has_many_records(answer, operation) => None,
            Reason::RequestTimeout if operation.body != Pace::AtOnce => None,
            Reason::OutcomeUnknown if self.is_unknown(answer, operation) => None,
            Reason::OutcomeUnknown => Some("an outcome is known"),
            // Another call has held the key meanwhile, in reserved mode, and has released it.
            Reason::NotCommitted
                if others().count() > 1 || self.is_with_go(answer) || is_hindered() || self.was_idle(answer) =>
            {
                None
            }
            Reason::StoreFailed if is_hindered() => None,
            Reason::StoreUnavailable if is_hindered() || self.was_idle(answer) || self.are_keys_away(answer) => None,
            Reason::Overloaded if is_hindered() || self.is_crowded(answer) => None,
            // The record is of another call, or has the hash of a server with other keys. Its own attempt that asks for the status may have the
            // key once the record is gone, and is waited for.
            Reason::Overloaded
                if (others().count() > 1 || self.plan.settings.sealing.is_some())
                    && self.strikes(answer).any(|fault| fault.kind == Kind::SlowStatuses) =>
            {
                None
            }
            Reason::HandlerTimeout if self.has_timed_out(answer) => None,
            Reason::Conflict if is_hindered() || self.is_beside_another(answer) => None,
            Reason::ShuttingDown if self.is_stopping(answer) => None,
            Reason::Conflict
            | Reason::HandlerTimeout
            | Reason::NotCommitted
            | Reason::StoreFailed
            | Reason::StoreUnavailable
            | Reason::Overloaded
            | Reason::ShuttingDown => Some("a refusal has its cause"),
            // `waits` looks who has the key.
            Reason::InProgress => None,
            _ => Some("nothing unexpected"),
        }
    }

    /// Returns whether a response under the key was too long to be stored.
    fn is_not_stored(&self, operation: &Operation) -> bool {
        let has_run = || {
            let key = self.key(operation.number);
            let of_key = |(number, run): (usize, &HandlerRun)| self.was_there(number) && self.key(run.operation) == key;
            self.evidence.runs.iter().enumerate().any(of_key)
        };
        self.plan.settings.has_response_limit && operation.is_long() && (has_run() || self.go_has_run(operation))
    }

    /// Returns whether the caller may have as many records as are allowed: servers take allowances, which count, too.
    fn has_many_records(&self, answer: &Answer, operation: &Operation) -> bool {
        let calls = self.evidence.calls.iter().filter(|call| call.arrived <= answer.got);
        let operations = calls.map(|call| self.plan.operation(self.evidence.attempts[call.attempt]));
        let of_go = self.evidence.go_runs.iter().map(|go| self.plan.operation(go.operation));
        let its = operations.chain(of_go).filter(|other| other.owner() == operation.owner());
        let keys: BTreeSet<_> = its.map(|other| self.key(other.number)).collect();
        // Each process has one, with its calls in flight.
        let in_flight = self.evidence.calls.iter().filter(|call| {
            call.arrived <= answer.got
                && call.left.is_none_or(|left| left + ALLOWANCE >= answer.sent)
                && self.plan.operation(self.evidence.attempts[call.attempt]).owner() == operation.owner()
        });
        let allowances = 2 * self.plan.settings.servers + in_flight.count();
        self.plan.settings.records.is_some_and(|records| (keys.len() + allowances) as u64 >= records)
    }

    /// Returns whether something was between the servers of the attempt and the database meanwhile.
    pub(super) fn is_hindered(&self, answer: &Answer) -> bool {
        let sent = answer.sent.saturating_sub(self.plan.settings.timeout);
        let calls = self.evidence.calls.iter().enumerate().filter(|(_, call)| self.is_of(answer, call.attempt));
        let mut calls = calls.map(|(number, _)| number);
        let mut faults = self.evidence.faults.iter();
        // A connection that has fallen silent is found out when it is used the next time.
        calls.any(|call| {
            self.excuses.is_hindered(call, sent, answer.got)
                || self.excuses.may_be_silent(call, answer.got)
        })
            // Its statements are too late until the clock is read again.
            || faults.any(|fault| fault.kind == Kind::Jump && sent <= fault.from && fault.from <= answer.got)
    }

    /// Returns whether the time of a handler of the attempt was up.
    fn has_timed_out(&self, answer: &Answer) -> bool {
        let mut runs = self.evidence.runs.iter().filter(|run| self.is_of(answer, run.attempt));
        runs.any(|run| self.excuses.time_was_up(run).is_some())
    }

    /// Returns whether the handler was idle until the server ended its transaction.
    pub(super) fn was_idle(&self, answer: &Answer) -> bool {
        let longest = self.plan.settings.policies.transaction_idle.mul_f64(0.9);
        let mut runs = self.evidence.runs.iter().filter(|run| self.is_of(answer, run.attempt));
        runs.any(|run| run.ended.is_some_and(|(at, _)| at - run.began >= longest))
    }

    /// Returns whether another call with the key was at a server meanwhile.
    fn is_beside_another(&self, answer: &Answer) -> bool {
        self.is_with_go(answer)
            || self.evidence.calls.iter().enumerate().any(|(number, call)| {
                !self.is_of(answer, call.attempt)
                    && self.key(self.evidence.attempts[call.attempt]) == self.key(answer.operation)
                    && call.arrived <= answer.got
                    && self.excuses.life(number).1 >= answer.sent
            })
    }

    /// Returns whether other calls were at a server of the attempt. A limit may be one, of few connections or of a user's part of them.
    fn is_crowded(&self, answer: &Answer) -> bool {
        let calls = &self.evidence.calls;
        let is_beside = |number: usize, process: &Process| {
            calls[number].process.is(process)
                && calls[number].arrived <= answer.got
                && self.excuses.life(number).1 >= answer.sent
        };
        let settings = &self.plan.settings;
        let least = match self.plan.operation(answer.operation).procedure {
            Procedure::Enter => limits::most_transactions(settings),
            Procedure::Send | Procedure::Insert => settings.connections,
        };
        let least = if settings.is_narrow { least.min(FEW) } else { least };
        calls.iter().filter(|call| self.is_of(answer, call.attempt)).any(|call| {
            let beside = (0..calls.len()).filter(|number| is_beside(*number, &call.process)).count();
            beside > least
        })
    }

    fn is_stopping(&self, answer: &Answer) -> bool {
        let mut stops = self.evidence.faults.iter().filter(|fault| matches!(fault.kind, Kind::Stop(_)));
        let is_of_a_call = |stop: &Strike| {
            let mut calls = self.evidence.calls.iter().filter(|call| self.is_of(answer, call.attempt));
            calls.any(|call| stop.process.as_ref().is_some_and(|process| process.is(&call.process)))
        };
        stops.any(|stop| stop.from <= answer.got && stop.to >= answer.sent && is_of_a_call(stop))
    }

    /// Returns whether the time that the key tells of may be longer ago than the retention.
    fn may_be_expired(&self, answer: &Answer, operation: &Operation) -> bool {
        let policies = &self.plan.settings.policies;
        policies.expired_keys == ExpiredKeyPolicy::Refuse
            && self.excuses.age(operation.stored, answer.got) + self.excuses.wall_clocks(answer.sent, answer.got)[0]
                >= policies.retention + SKEW
    }

    /// Returns whether nobody can know how a call of this key has ended.
    fn is_unknown(&self, answer: &Answer, operation: &Operation) -> bool {
        let key = self.key(operation.number);
        let calls =
            self.evidence.calls.iter().enumerate().filter(|(_, call)| {
                call.arrived <= answer.got && self.key(self.evidence.attempts[call.attempt]) == key
            });
        let mut calls = calls.map(|(number, _)| number);
        // A reconciler that did not know was asked for the sake of Go servers' reservations, and the lease's policy asks none again.
        let stays_unknown =
            self.plan.settings.reconciles() && self.plan.settings.policies.on_lease_ended == LeasePolicy::Rerun;
        let is_open = |call| {
            self.excuses.is_killed(call)
                || self.excuses.has_lapsed(call, answer.got)
                    && (stays_unknown || self.excuses.life(call).1 >= answer.sent)
                || self.excuses.may_claim_late(call)
        };
        let is_told = |run: &HandlerRun| {
            run.ended.is_some_and(|(_, end)| end == End::ErrorAfterEffect)
                || run.is_sent && self.excuses.time_was_up(run).is_some()
        };
        let settings = &self.plan.settings;
        let is_run_again = settings.policies.on_lease_ended == LeasePolicy::Rerun && !settings.reconciles();
        self.runs_of(operation).any(is_told)
            || self.may_be_taken_from_go(key, answer.got)
            || !is_run_again && (calls.any(is_open) || self.runs_of(operation).any(|run| self.excuses.is_unknown(run)))
            || self.excuses.is_taken_back(operation.number, Duration::ZERO, answer.got)
    }
}
