//! Whether the records tell what has happened.

use std::time::Duration;

use prost::Message as _;

use super::Audit;
use crate::{
    database::StoredRecord,
    plan::{Procedure, caller},
    service::proto::EnterReply,
};

/// More than a run lasts.
const LONG: Duration = Duration::from_secs(3600);

impl Audit<'_> {
    /// Checks the records that are there when all has been answered.
    pub(super) fn records(&mut self) {
        for record in &self.evidence.records {
            let is_true = match record.state {
                "reserved" => false,
                "completed" if self.is_of_go(record) => true,
                "completed" => self
                    .run_of(record)
                    .is_some_and(|run| self.committed[run] && self.is_under(record, self.evidence.runs[run].operation)),
                _ => true,
            };
            if !is_true {
                self.broken("a record tells the truth", format!("{record:?}"));
            }
        }
        for (number, run) in self.evidence.runs.iter().enumerate() {
            let is_kept = self.plan.operation(run.operation).procedure == Procedure::Enter
                && self.committed[number]
                && self.plan.settings.policies.retention > LONG;
            let has_record =
                |record: &StoredRecord| self.is_under(record, run.operation) && self.run_of(record) == Some(number);
            if is_kept && !self.evidence.records.iter().any(has_record) {
                let seen = format!("run {number} of operation {} has no record", run.operation);
                self.broken("a record tells the truth", seen);
            }
        }
    }

    /// Returns whether a record has the owner and the key of an operation.
    fn is_under(&self, record: &StoredRecord, operation: usize) -> bool {
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

    /// Returns the run whose response is recorded, if it is the response of one.
    fn run_of(&self, record: &StoredRecord) -> Option<usize> {
        let reply = EnterReply::decode(record.response.clone()?).ok()?;
        let number = usize::try_from(reply.run).ok()?;
        let operation = self.plan.operation(self.evidence.runs.get(number)?.operation);
        (reply.owner == operation.owner().to_string() && reply.text == operation.text()).then_some(number)
    }
}
