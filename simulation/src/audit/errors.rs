//! Whether each error has its cause: those of handlers, of the network and of proxies. `refusals` has those of the layer.

use std::time::Duration;

use tonic::Code;

use super::{Audit, secrets::is_without_content};
use crate::{
    ledger::{Answer, Call, HandlerRun, Strike},
    plan::{End, Kind, Operation, Procedure},
    service::run_of_error,
};

/// The time for which a fault of the network shows after its end: messages are on their way.
const AFTER: Duration = Duration::from_secs(2);

impl Audit<'_> {
    pub(super) fn about_failed(
        &self,
        answer: &Answer,
        code: Code,
        message: &str,
        operation: &Operation,
    ) -> Option<&'static str> {
        let has_cause = match (code, run_of_error(message)) {
            (_, Some(run)) => self.is_error_of(answer, code, run),
            (Code::FailedPrecondition, None) if is_without_content(message) => {
                self.may_be_unreadable("failed", operation, answer.got)
            }
            (Code::Internal, None) if message.contains("panicked") => self.evidence.runs.iter().any(|run| {
                self.is_of(answer, run.attempt)
                    && run.ended.is_some_and(|(_, end)| matches!(end, End::Panic | End::ErrorAfterEffect))
            }),
            (Code::Unavailable, None) => self.is_disturbed(answer) || self.is_distorted(answer),
            (Code::DeadlineExceeded, None) => {
                operation.tells_patience && answer.got - answer.sent >= operation.patience.mul_f64(0.9 * operation.told)
                    || self.is_distorted(answer)
            }
            (_, None) => self.is_distorted(answer),
        };
        (!has_cause).then_some("an error has its cause")
    }

    /// Returns whether a run has ended with an error that a client may hear in this answer: one that is kept, or is its own.
    fn is_error_of(&self, answer: &Answer, code: Code, run: usize) -> bool {
        let Some(run) = self.evidence.runs.get(run) else { return false };
        let is_kept = !self.plan.settings.policies.final_errors.is_empty();
        let is_own = self.is_of(answer, run.attempt);
        let is_told = match run.ended {
            Some((_, End::FinalError)) => code == Code::FailedPrecondition && (is_own || is_kept),
            Some((_, End::Error | End::ErrorAfterEffect)) => code == Code::Internal && is_own,
            _ => false,
        };
        is_told && self.key(run.operation) == self.key(answer.operation)
    }

    /// Returns whether an answer is to this attempt. With a journal it may be to any of its operation: an entry has the head of the first call.
    pub(super) fn is_of(&self, answer: &Answer, attempt: usize) -> bool {
        attempt == answer.attempt
            || self.plan.settings.client_journal && self.evidence.attempts[attempt] == answer.operation
    }

    /// Returns whether a proxy has distorted answers meanwhile.
    fn is_distorted(&self, answer: &Answer) -> bool {
        self.strikes(answer).any(|fault| fault.kind == Kind::DistortClients)
    }

    /// Returns whether the way of a call was disturbed meanwhile: a connection was cut, a server was down, or its handler did not get at the
    /// database or the other system.
    fn is_disturbed(&self, answer: &Answer) -> bool {
        let calls: Vec<&Call> = self.evidence.calls.iter().filter(|call| self.is_of(answer, call.attempt)).collect();
        let is_at = |server: usize| calls.iter().any(|call| call.server == server);
        let fails = |run: &HandlerRun| {
            self.is_of(answer, run.attempt) && run.ended.is_some_and(|(_, end)| end == End::ErrorAfterEffect)
        };
        let is_cause = |fault: &Strike| match fault.kind {
            Kind::CutClients | Kind::StormClients | Kind::Kill(_) | Kind::Stop(_) => true,
            Kind::StormOutside(server) | Kind::Pause(server) => is_at(server) && self.evidence.runs.iter().any(fails),
            _ => false,
        };
        // Without a key, a panic of the handler ends its connection.
        let panics = |run: &HandlerRun| {
            self.is_of(answer, run.attempt)
                && matches!(run.ended, Some((_, End::Panic | End::ErrorAfterEffect)))
                && !self.plan.operation(run.operation).has_key
        };
        let is_left = |run: &HandlerRun| {
            let operation = self.plan.operation(run.operation);
            self.is_of(answer, run.attempt)
                && operation.procedure == Procedure::Enter
                && operation.behaviour(run.count).is_left
        };
        self.evidence.runs.iter().any(|run| panics(run) || is_left(run))
            || self.strikes(answer).any(is_cause)
            || self.is_hindered(answer)
            || self.was_idle(answer)
    }

    /// Returns the faults that an answer may show.
    pub(super) fn strikes(&self, answer: &Answer) -> impl Iterator<Item = &Strike> {
        let (sent, got) = (answer.sent, answer.got);
        self.evidence.faults.iter().filter(move |fault| fault.from <= got && sent <= fault.to + AFTER)
    }
}
