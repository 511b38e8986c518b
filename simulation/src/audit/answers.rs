//! Whether the answers that clients got tell the truth.

use std::time::Duration;

use distortion::OF_A_PROXY;
use tonic_idempotency::{policy::ExpiredKeyPolicy, rejection::Reason};

use super::Audit;
use crate::{
    ledger::{Answer, HandlerRun, Says, Strike},
    plan::{End, Kind, Operation},
};

/// By how much later than a client its server hears that it has given an attempt up.
const LATE: Duration = Duration::from_secs(1);

impl Audit<'_> {
    pub(super) fn answers(&mut self) {
        for answer in &self.evidence.answers {
            let operation = self.plan.operation(answer.operation);
            let promise = match &answer.says {
                Says::Done { run, owner, text, is_replay, .. } => {
                    self.about_done(answer, operation, *run, (owner, text), *is_replay)
                }
                Says::Refused(reason) => self.about_refused(answer, *reason, operation),
                Says::Failed(code, message) => self.about_failed(answer, *code, message, operation),
                Says::Nothing | Says::Unresolved => None,
            };
            let promise = promise.or_else(|| self.has_lied(answer, operation).then_some("an error tells the truth"));
            if let Some(promise) = promise {
                self.broken(promise, format!("operation {} heard {:?}", answer.operation, answer.says));
            }
        }
    }

    fn about_done(
        &self,
        answer: &Answer,
        operation: &Operation,
        run: usize,
        (owner, text): (&str, &str),
        is_replay: bool,
    ) -> Option<&'static str> {
        let policies = &self.plan.settings.policies;
        let of_run = self.evidence.runs.get(run);
        let lives = policies.retention + policies.retention / 50;
        // An unknown outcome may be found out later, and its retention counts from then.
        let is_known = |run: &&HandlerRun| {
            run.ended.is_some_and(|(_, end)| end == End::Response)
                && !self.excuses.is_lost(run.call)
                && !self.excuses.is_unprotected(run)
                && !self.excuses.is_taken_back_since(run, answer.sent)
        };
        let expires = of_run.filter(is_known).map(|run| self.excuses.life(run.call).1 + lives);
        match () {
            () if owner != operation.owner().to_string() => Some("nobody sees another's data"),
            () if of_run.is_some_and(|run| self.plan.operation(run.operation).procedure != operation.procedure) => {
                Some("another request is no retry")
            }
            // Of runs that were not protected, the reconciler cannot tell which request was first.
            () if text != operation.text() && !self.runs_of(operation).any(|run| self.excuses.is_unprotected(run)) => {
                Some("nobody sees another's data")
            }
            () if self.go_run(run as u64).is_some_and(|go| self.key(go.operation) == self.key(operation.number)) => {
                None
            }
            () if of_run.is_none() || !self.was_there(run) => Some("an acknowledged effect stays"),
            () if is_replay
                && policies.expired_keys == ExpiredKeyPolicy::Run
                && expires.is_some_and(|expires| expires + self.excuses.set_back(answer.sent) < answer.sent) =>
            {
                Some("a replay ends with its record")
            }
            () => None,
        }
    }

    /// Returns the runs under the key of an operation.
    pub(super) fn runs_of(&self, operation: &Operation) -> impl Iterator<Item = &HandlerRun> {
        let key = self.key(operation.number);
        self.evidence.runs.iter().filter(move |run| self.key(run.operation) == key)
    }

    /// Returns whether the client's layer told of a failure, and the effect was on the way or there.
    fn has_lied(&self, answer: &Answer, operation: &Operation) -> bool {
        if self.plan.settings.client_layer && matches!(&answer.says, Says::Failed(_, message) if message == OF_A_PROXY)
        {
            return true;
        }
        let has_failed = match &answer.says {
            Says::Failed(..) => true,
            Says::Refused(reason) => {
                !matches!(reason, Reason::OutcomeUnknown | Reason::KeyReused | Reason::KeyExpired | Reason::NotStored)
            }
            Says::Done { .. } | Says::Nothing | Says::Unresolved => false,
        };
        let shares = |other: &&Operation| (other.owner(), other.stored) == (operation.owner(), operation.stored);
        let is_repeated = |fault: &Strike| fault.kind == Kind::RepeatClients;
        let is_alone = operation.duplicates == 0
            && !self.strikes(answer).any(is_repeated)
            && self.plan.operations.iter().filter(shares).count() == 1;
        // An attempt that was given up counts as over when as much time has passed again.
        let settings = &self.plan.settings;
        let again = if settings.client_journal { operation.patience / 2 } else { settings.attempt_timeout };
        let is_over = |run: &HandlerRun| {
            let left = self.evidence.calls[run.call].left;
            self.excuses
                .uses("an attempt was given up before", left.is_some_and(|left| left + again <= answer.got + LATE))
        };
        let kept = self.evidence.journals.get(&operation.number);
        let is_sent_once_more =
            |run: &HandlerRun| kept.is_some_and(|kept| kept.is_sent_once_more(answer.got, run.began));
        let is_on_the_way = |(number, run): (usize, &HandlerRun)| {
            run.operation == operation.number
                && !self.excuses.uses("a client was killed before the end was on its disk", is_sent_once_more(run))
                && run.attempt == answer.attempt
                && answer.got + self.excuses.jumps(run.began, answer.got)
                    < run.began + self.plan.settings.policies.retention
                && self.committed[number]
                && !is_over(run)
                && !self.excuses.is_unknown(run)
        };
        self.plan.settings.client_layer
            && !operation.is_last
            && has_failed
            && is_alone
            && !(operation.procedure.is_reserved()
                && self.runs_of(operation).any(|run| self.excuses.may_run_again(run, answer.got)))
            && self.evidence.runs.iter().enumerate().any(is_on_the_way)
            && !self.excuses.is_taken_back(operation.number, Duration::ZERO, answer.got)
    }
}
