//! Whether nothing but keys opens what is sealed, and a key that is destroyed opens nothing.

use std::{sync::LazyLock, time::Duration};

use tonic_idempotency::{
    run::{Codec as _, Prost},
    store::RequestHash,
};

use super::Audit;
use crate::{
    database::{Outcome, StoredRecord},
    keys::{Keys, named},
    ledger::{Answer, Says},
    plan::{Operation, Role},
    service::{
        PLANNED, descriptors, message_of,
        proto::{EnterReply, EnterRequest},
    },
};

/// The words of the layer for the content of an error that it cannot read, or did not store.
const WITHOUT_CONTENT: [&str; 2] = ["the content of this error can no longer be read", "its content was not stored"];

/// Returns whether a message is that of an error whose own was lost with its key.
pub(super) fn is_without_content(message: &str) -> bool {
    WITHOUT_CONTENT.iter().any(|words| message.contains(words))
}

impl Audit<'_> {
    /// Checks the outcomes that servers have recorded, and the answers that were given after their keys were destroyed.
    pub(super) fn secrets(&mut self) {
        let Some(sealing) = &self.plan.settings.sealing else { return };
        let evidence = self.evidence;
        for Outcome { process, record, .. } in &evidence.outcomes {
            let seals = evidence.roles.iter().any(|(it, role)| *role == Role::Seals && it.is(process));
            if seals && (is_readable(record) || self.has_plain_hash(record)) {
                self.broken("what is sealed is not in the open", format!("{process:?} has recorded {record:?}"));
            }
        }
        let keys = Keys::new(self.plan.seed, sealing.clone());
        for Outcome { record, .. } in &evidence.outcomes {
            let is_its = |it: &&Outcome| (it.record.owner, it.record.key) == (record.owner, record.key);
            // One that was lost may be recorded again with another key.
            let is_only = evidence.outcomes.iter().filter(is_its).count() == 1;
            let Some(erased) = self.erased_at(record).filter(|_| is_only) else { continue };
            let mut opened = record.clone();
            keys.open(&mut opened);
            let run = self.run_of(&opened).or_else(|| self.error_of(&opened));
            let told = evidence.answers.iter().find(|it| run.is_some() && self.is_told_after(it, run, erased));
            if let Some(Answer { operation, sent, .. }) = told {
                let seen = format!("operation {operation} asked at {sent:?}, and heard of run {run:?}");
                self.broken("a destroyed key opens nothing", seen);
            }
        }
    }

    /// Returns whether an answer tells of a run that was asked for after this time, when the run was over.
    fn is_told_after(&self, answer: &Answer, run: Option<usize>, erased: Duration) -> bool {
        let is_over = |run: usize| answer.sent > self.excuses.life(self.evidence.runs[run].call).1;
        let is_replay = !matches!(answer.says, Says::Done { is_replay: false, .. });
        is_replay
            && answer.sent > erased
            && self.told_of(answer) == run
            && run.is_some_and(is_over)
            // An entry of a journal has the answer to an earlier attempt.
            && !self.plan.settings.client_journal
    }

    /// Returns when all servers knew that the key of a record is destroyed.
    fn erased_at(&self, record: &StoredRecord) -> Option<Duration> {
        let (scope, number) = named(&record.envelope()?)?;
        let destroyed = self.plan.settings.sealing.as_ref()?.destroyed(scope, number);
        destroyed.filter_map(|it| it.heard.iter().max().copied()).min()
    }

    /// Returns whether a record under the key of an operation, in this state, cannot be read at this time: some server has heard that its key is
    /// destroyed, or there was none.
    pub(super) fn may_be_unreadable(&self, state: &str, operation: &Operation, at: Duration) -> bool {
        let Some(sealing) = &self.plan.settings.sealing else { return false };
        let is_destroyed = |record: &StoredRecord| {
            let key = record.envelope().and_then(|envelope| named(&envelope));
            key.is_some_and(|(scope, number)| {
                sealing.destroyed(scope, number).any(|it| it.heard.iter().any(|heard| *heard <= at))
            })
        };
        self.evidence.outcomes.iter().any(|Outcome { at: recorded, record, .. }| {
            *recorded <= at
                && record.state == state
                && self.is_under(record, operation.number)
                && (is_destroyed(record) || self.is_without_key(record))
        })
    }

    /// Returns whether a record has no content because there was no key for it.
    pub(super) fn is_without_key(&self, record: &StoredRecord) -> bool {
        let Some(sealing) = &self.plan.settings.sealing else { return false };
        let error = record.response.as_ref().map(|error| String::from_utf8_lossy(error));
        let has_nothing = match record.state {
            "not_stored" => record.metadata.is_none(),
            "failed" => error.is_some_and(|error| is_without_content(&error)),
            _ => false,
        };
        let is_keyless = |operation: &Operation| {
            self.is_under(record, operation.number) && self.evidence.keyless.contains(&sealing.scope(operation.scope))
        };
        let is_recovered = sealing.has_scopes && self.evidence.recovered.contains(&(record.owner, record.key));
        has_nothing && (is_recovered || self.plan.operations.iter().any(is_keyless))
    }

    /// Returns whether keys were away at a server of the attempt meanwhile.
    pub(super) fn are_keys_away(&self, answer: &Answer) -> bool {
        let mut calls = self.evidence.calls.iter().filter(|call| self.is_of(answer, call.attempt));
        let absences = self.plan.settings.sealing.as_ref().map(|it| it.absences.as_slice()).unwrap_or_default();
        calls.any(|call| {
            absences.iter().any(|it| it.is_at(call.server) && it.from <= answer.got && answer.sent <= it.to)
        })
    }

    /// Returns whether a record has the plain hash of a request, and its row was not there before: a call that takes a row over leaves it the
    /// hash.
    fn has_plain_hash(&self, record: &StoredRecord) -> bool {
        static CODEC: LazyLock<Prost<EnterRequest, EnterReply>> =
            LazyLock::new(|| Prost::new(&descriptors(false)).expect("the service's descriptors"));
        let is_plain = |operation: &Operation| {
            let hash = || CODEC.hash(&message_of(operation)).expect("a message that can be hashed");
            self.is_under(record, operation.number) && RequestHash::from(hash()) == record.request
        };
        let is_of_go = self.evidence.go_runs.iter().any(|go| self.is_under(record, go.operation));
        // Of a delivery another encoding is hashed.
        let mut calls = self.plan.operations.iter().filter(|it| !it.is_delivered);
        record.attempts == 1 && !is_of_go && calls.any(is_plain)
    }
}

/// Returns whether something of a response or of an error can be read in a record.
fn is_readable(record: &StoredRecord) -> bool {
    let has = |bytes: &[u8], words: &str| bytes.windows(words.len()).any(|part| part == words.as_bytes());
    let stored = [&record.response, &record.metadata].into_iter().flatten();
    record.state == "completed" || stored.into_iter().any(|bytes| has(bytes, "entry ") || has(bytes, PLANNED))
}
