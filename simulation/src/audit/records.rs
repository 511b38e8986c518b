//! Whether the records tell what has happened.

use std::time::Duration;

use prost::Message as _;

use super::Audit;
use crate::{
    database::StoredRecord,
    ledger::{Call, GoRun, HandlerRun},
    plan::{End, Procedure, caller},
    service::{PLANNED, proto::EnterReply, run_of_error},
};

/// More than a run lasts.
const LONG: Duration = Duration::from_secs(3600);

impl Audit<'_> {
    /// Checks the records that are there when all has been answered.
    pub(super) fn records(&mut self) {
        for record in &self.evidence.records {
            let is_true = match record.state {
                // A Go server's response was lost with its commit, and its reservations have no lease.
                "reserved" => {
                    record.token.is_nil() && self.evidence.lost.keys.contains_key(&(record.owner, record.key))
                }
                "completed" if self.is_of_go(record) => true,
                "completed" => self
                    .run_of(record)
                    .is_some_and(|run| self.was_there(run) && self.is_under(record, self.evidence.runs[run].operation)),
                "failed" => self.has_failed(record) || self.is_without_key(record),
                "abandoned" | "unknown" => self.is_open(record),
                "expired" => true,
                "not_stored" => self.is_too_long(record) || self.is_without_key(record),
                _ => false,
            };
            if !is_true {
                self.broken("a record tells the truth", format!("{record:?}"));
            }
        }
        for (number, run) in self.evidence.runs.iter().enumerate() {
            let is_kept = self.plan.operation(run.operation).has_key
                && self.plan.settings.policies.retention > LONG
                && self.is_recorded(number, run);
            let has_record = |record: &StoredRecord| {
                self.is_under(record, run.operation)
                    && (record.state == "not_stored"
                        || self.is_without_key(record)
                        || self.run_of(record) == Some(number)
                        || self.error_of(record) == Some(number))
            };
            if is_kept && !self.evidence.records.iter().any(has_record) {
                let seen = format!("run {number} of operation {} has no record", run.operation);
                self.broken("a record tells the truth", seen);
            }
        }
    }

    /// Returns whether the effect of a run is there, or was until a failover lost it: its record may be made after that.
    pub(super) fn was_there(&self, run: usize) -> bool {
        self.committed[run] || self.evidence.lost.effects.contains(&(run as u64))
    }

    /// Returns whether the outcome of a run is to be in a record in the end.
    fn is_recorded(&self, number: usize, run: &HandlerRun) -> bool {
        let is_final = !self.plan.settings.policies.final_errors.is_empty();
        let is_reserved = || {
            run.ended.is_some_and(|(_, end)| end == End::Response || is_final && end == End::FinalError)
                && !self.excuses.is_lost(run.call)
                && !self.excuses.is_unprotected(run)
                && !self.excuses.is_taken_back_since(run, Duration::MAX)
        };
        let is_recorded = match self.plan.operation(run.operation).procedure {
            Procedure::Enter => self.committed[number],
            Procedure::Send | Procedure::Insert => is_reserved(),
        };
        is_recorded && !self.may_go_meddle(self.key(run.operation), run.began, Duration::MAX)
    }

    /// Returns whether a record may be one of a response that was too long to be stored.
    fn is_too_long(&self, record: &StoredRecord) -> bool {
        let is_its = |(number, run): (usize, &HandlerRun)| {
            self.was_there(number)
                && self.is_under(record, run.operation)
                && self.plan.operation(run.operation).is_long()
        };
        let is_its_go = |go: &GoRun| go.is_done && self.is_under(record, go.operation);
        self.plan.settings.has_response_limit
            && (self.evidence.runs.iter().enumerate().any(is_its) || self.evidence.go_runs.iter().any(is_its_go))
    }

    /// Returns whether a record has the error of a run under its key that has failed for good.
    fn has_failed(&self, record: &StoredRecord) -> bool {
        let run = self.error_of(record).map(|number| &self.evidence.runs[number]);
        run.is_some_and(|run| {
            run.ended.is_some_and(|(_, end)| end == End::FinalError) && self.is_under(record, run.operation)
        })
    }

    /// Returns whether a call under the key of a record may have ended without telling how.
    fn is_open(&self, record: &StoredRecord) -> bool {
        let is_open = |number: usize, call: &Call| {
            let has_left_it = |run: &HandlerRun| run.call == number && self.excuses.is_unknown(run);
            let operation = self.evidence.attempts[call.attempt];
            self.is_under(record, operation)
                && (self.excuses.is_lost(number)
                    || self.excuses.may_claim_late(number)
                    || self.evidence.runs.iter().any(has_left_it)
                    || self.excuses.is_taken_back(operation, Duration::ZERO, Duration::MAX))
        };
        let of_go = self.evidence.go_runs.iter().find(|go| self.is_under(record, go.operation));
        self.evidence.calls.iter().enumerate().any(|(number, call)| is_open(number, call))
            || of_go.is_some_and(|go| self.may_be_taken_from_go(self.key(go.operation), Duration::MAX))
    }

    /// Returns whether a record has the owner and the key of an operation.
    pub(super) fn is_under(&self, record: &StoredRecord, operation: usize) -> bool {
        let operation = self.plan.operation(operation);
        let owner = operation.user.map(|user| *caller(user, operation.scope).owner().as_uuid());
        (Some(record.owner), record.key) == (owner, operation.stored)
    }

    /// Returns whether a record has the response of a Go server.
    fn is_of_go(&self, record: &StoredRecord) -> bool {
        let reply = record.response.clone().and_then(|response| EnterReply::decode(response).ok());
        let go = reply.and_then(|reply| self.go_run(reply.run));
        go.is_some_and(|go| self.is_under(record, go.operation))
    }

    /// Returns the run whose error is recorded, if it is the error of one.
    pub(super) fn error_of(&self, record: &StoredRecord) -> Option<usize> {
        // The message is in it as it is, whatever the encoding.
        let error = String::from_utf8_lossy(record.response.as_ref()?);
        let message = &error[error.find(PLANNED)?..];
        let number = message.find(|it: char| it.is_ascii_digit())?;
        let digits = message[number..].find(|it: char| !it.is_ascii_digit());
        run_of_error(&message[..digits.map_or(message.len(), |digits| number + digits)])
            .filter(|number| *number < self.evidence.runs.len())
    }

    /// Returns the run whose response is recorded, if it is the response of one.
    pub(super) fn run_of(&self, record: &StoredRecord) -> Option<usize> {
        let reply = EnterReply::decode(record.response.clone()?).ok()?;
        let number = usize::try_from(reply.run).ok()?;
        let operation = self.plan.operation(self.evidence.runs.get(number)?.operation);
        (reply.owner == operation.owner().to_string() && reply.text == operation.text()).then_some(number)
    }
}
