//! The audit of each operation.

use std::{collections::HashMap, time::Duration};

use tonic::Code;
use uuid::Uuid;

use super::{Evidence, Promise, Verdict, Violation, runs};
use crate::{
    journal::{Attempt, Purpose, UnprotectedRun},
    operation::Variant,
    outcome::{Acknowledgement, Failure, Outcome, Reason},
};

/// Judges all operations and everything that belongs to none.
pub(crate) fn judge(evidence: &Evidence<'_>) -> Verdict {
    let mut attempts: Vec<Vec<&Attempt>> = vec![Vec::new(); evidence.operations.len()];
    for attempt in &evidence.entries.attempts {
        if let Some(attempts) = attempts.get_mut(attempt.operation as usize) {
            attempts.push(attempt);
        }
    }
    let mut verdict = Verdict::default();
    let unprotected = unprotected_runs(evidence, &mut verdict);
    for (operation, attempts) in evidence.operations.iter().zip(attempts) {
        let unprotected = unprotected.get(&operation.number).map_or(&[][..], Vec::as_slice);
        Case::new(evidence, operation.number, &attempts, unprotected, &mut verdict).judge();
    }
    for violation in runs::judge(evidence) {
        let excused = evidence.rules.excuse_loss(violation.promise, &evidence.entries.faults);
        let list = if excused { &mut verdict.losses } else { &mut verdict.violations };
        list.push(violation);
    }
    for name in &evidence.rows.strangers {
        let what = format!("the row {name:?} belongs to no operation");
        verdict.violations.push(Violation { operation: None, promise: Promise::NothingElse, what });
    }
    if evidence.rows.readable > 0 {
        let what = format!("{} responses are stored in the open", evidence.rows.readable);
        verdict.violations.push(Violation { operation: None, promise: Promise::NothingElse, what });
    }
    for (at, server) in &evidence.entries.unexpected_ends {
        let what = format!("server {server} ended by itself after {at:.1?}");
        verdict.violations.push(Violation { operation: None, promise: Promise::NothingElse, what });
    }
    verdict
}

/// Checks the unprotected runs, and returns those of each operation.
fn unprotected_runs<'a>(evidence: &Evidence<'a>, verdict: &mut Verdict) -> HashMap<u32, Vec<&'a UnprotectedRun>> {
    let by_key: HashMap<_, _> = evidence.operations.iter().map(|operation| (operation.key, operation.number)).collect();
    let mut runs: HashMap<_, Vec<_>> = HashMap::new();
    for run in &evidence.entries.unprotected {
        let operation = run.key.and_then(|key| by_key.get(&key).copied());
        verdict.unprotected += 1;
        if evidence.rules.allow_unprotected(run, evidence.entries) {
            verdict.unprotected_with_need += 1;
        } else {
            let UnprotectedRun { server, cause, asked, ran, .. } = run;
            let what =
                format!("it ran unprotected on server {server} ({cause}), after {ran:.3?}, asked after {asked:.3?}");
            verdict.violations.push(Violation { operation, promise: Promise::NothingUnprotected, what });
        }
        if let Some(operation) = operation {
            runs.entry(operation).or_default().push(run);
        }
    }
    runs
}

/// The case of one operation.
struct Case<'a> {
    /// The attempts with its own request.
    asked: Vec<&'a Attempt>,
    /// The attempts with another request.
    changed: Vec<&'a Attempt>,
    evidence: &'a Evidence<'a>,
    /// Whether a fault may have kept its outcome from being recorded.
    hit: bool,
    /// Whether a fault may have lost what its server or its handler knew.
    may_be_unknown: bool,
    number: u32,
    /// Its unprotected runs, with either request. Each may have an effect of its own.
    unprotected: &'a [&'a UnprotectedRun],
    verdict: &'a mut Verdict,
}

/// The first response that a client got.
#[derive(Clone, Copy)]
struct First {
    at: Duration,
    id: Option<Uuid>,
}

impl<'a> Case<'a> {
    fn new(
        evidence: &'a Evidence<'a>,
        number: u32,
        attempts: &[&'a Attempt],
        unprotected: &'a [&'a UnprotectedRun],
        verdict: &'a mut Verdict,
    ) -> Self {
        let (asked, changed) = attempts.iter().partition(|attempt| attempt.variant == Variant::Asked);
        Self { asked, changed, evidence, hit: false, may_be_unknown: false, number, unprotected, verdict }
    }

    fn judge(mut self) {
        let acknowledged = |attempt: &&'a Attempt| {
            let (at, outcome) = attempt.ended.as_ref()?;
            Some((*attempt, *at, *outcome.acknowledgement()?))
        };
        let mut acknowledged: Vec<_> = self.asked.iter().filter_map(acknowledged).collect();
        acknowledged.sort_by_key(|(_, at, _)| *at);
        let first = acknowledged.first().map(|(_, at, acknowledgement)| First { at: *at, id: acknowledgement.id });

        self.look_for_faults(first);
        self.effects();
        for (number, (attempt, _, acknowledgement)) in acknowledged.iter().enumerate() {
            self.acknowledgement(attempt, *acknowledgement, first.filter(|_| number > 0));
        }
        for attempt in self.asked.clone() {
            if let Some(Outcome::Failed(failure)) = attempt.outcome() {
                self.failure(attempt, failure, first);
            }
        }
        for attempt in self.changed.clone() {
            self.changed_request(attempt);
        }
        self.last_word(first);
    }

    /// Checks the rows that the operation left.
    fn effects(&mut self) {
        let rows = |variant| self.evidence.rows.of(self.number, variant).len();
        let (rows, changed, unprotected) = (rows(Variant::Asked), rows(Variant::Changed), self.unprotected.len());
        if rows > 1 {
            if rows - 1 <= unprotected {
                self.verdict.unprotected_duplicates += rows - 1;
            } else {
                let what = format!("it was executed {rows} times, and ran unprotected {unprotected} times");
                self.broken(Promise::NothingTwice, what);
            }
        }
        if changed > 0 && changed <= unprotected {
            self.verdict.unprotected_duplicates += changed;
        } else if changed > 0 {
            self.broken(Promise::NothingThoughRefused, "another request was executed with its key".to_owned());
        }
    }

    /// Checks a response to the operation's own request. `first` is the first response, unless it is this one.
    fn acknowledgement(&mut self, attempt: &Attempt, given: Acknowledgement, first: Option<First>) {
        if !given.protected && !self.ran_unprotected(attempt) {
            let what =
                format!("a response lacks the layer's header, and its call ran protected, after {:.3?}", attempt.begun);
            self.broken(Promise::NothingElse, what);
        }
        let Some(id) = given.id else {
            return self.broken(Promise::NothingElse, "a response had no valid id".to_owned());
        };
        match self.evidence.rows.owner(id) {
            Some(owner) if owner == (self.number, Variant::Asked) => {}
            Some((other, _)) => {
                return self.broken(Promise::NoWrongReplay, format!("it got the response of operation {other}: {id}"));
            }
            None => {
                let excused = self.evidence.rules.excuse_lost_effect(&self.evidence.entries.faults);
                return self.note(excused, Promise::NothingLost, format!("{id} was acknowledged, and has no row"));
            }
        }
        let Some(first) = first else { return };
        let later = attempt.begun >= first.at;
        let text = |id: Option<Uuid>| id.map_or_else(|| "nothing".to_owned(), |id| id.to_string());
        if first.id != Some(id) {
            let what = format!("its first response had the id {}, and a later one {id}", text(first.id));
            let may_differ = !self.unprotected.is_empty();
            if given.replayed || !later {
                if !may_differ {
                    self.broken(Promise::NoWrongReplay, what);
                }
            } else if !may_differ {
                self.broken(Promise::NothingLost, format!("{what}, from another execution"));
            }
        } else if later && !given.replayed {
            self.broken(Promise::NothingLost, format!("a later response with the id {id} is not marked as a replay"));
        }
    }

    /// Checks an answer to the operation's own request that is not a response.
    fn failure(&mut self, attempt: &Attempt, failure: &Failure, first: Option<First>) {
        if failure.reason == Some(Reason::StoreFailed) {
            let what = format!("the store failed after {:.3?}: {}", attempt.begun, Outcome::Failed(failure.clone()));
            return self.broken(Promise::NothingElse, what);
        }
        if failure.is_transient() || self.is_displaced(failure.reason) {
            return;
        }
        let unknown = failure.reason == Some(Reason::OutcomeUnknown) && failure.code == Code::FailedPrecondition;
        if !unknown || !self.evidence.rules.allow_unknown() {
            let what = format!("it was refused after {:.3?}: {}", attempt.begun, Outcome::Failed(failure.clone()));
            self.broken(Promise::NothingElse, what);
        } else if first.is_some_and(|first| attempt.begun >= first.at) && !self.hit && self.unprotected.is_empty() {
            self.broken(Promise::NothingLost, "it was acknowledged, and its outcome was unknown afterwards".to_owned());
        }
    }

    /// Checks the answer to another request with the operation's key, sent after the operation was acknowledged.
    fn changed_request(&mut self, attempt: &Attempt) {
        match attempt.outcome() {
            Some(Outcome::Acknowledged(given)) => {
                let promise = match given.replayed {
                    true => Promise::NoWrongReplay,
                    false => Promise::NothingThoughRefused,
                };
                if !given.replayed && self.ran_unprotected(attempt) {
                    return;
                }
                self.broken(promise, format!("another request with its key was acknowledged: {:?}", given.id));
            }
            Some(Outcome::Failed(failure)) => {
                let mismatch = failure.code == Code::InvalidArgument && failure.reason == Some(Reason::KeyReused);
                if !mismatch && !failure.is_transient() {
                    let what = Outcome::Failed(failure.clone());
                    self.broken(Promise::NothingElse, format!("another request with its key was answered {what}"));
                }
            }
            Some(Outcome::HungUp | Outcome::TimedOut) | None => {}
        }
    }

    /// Checks the answer to the last retry, after all faults.
    fn last_word(&mut self, first: Option<First>) {
        let last = self.asked.iter().rev().find(|attempt| attempt.purpose == Purpose::Final);
        match last.and_then(|attempt| attempt.outcome()) {
            Some(Outcome::Acknowledged(_)) => {}
            Some(outcome) if outcome.reason() == Some(Reason::OutcomeUnknown) && !self.may_be_unknown => {
                self.broken(Promise::NothingStuck, "its outcome is unknown, and no fault has lost anything".to_owned());
            }
            Some(outcome) if outcome.reason() == Some(Reason::OutcomeUnknown) => {
                self.verdict.unknown += 1;
                self.verdict.refused_after_acknowledgement += usize::from(first.is_some());
            }
            Some(outcome) if self.is_displaced(outcome.reason()) => {}
            Some(outcome) => self.broken(Promise::NothingStuck, format!("its last retry got: {outcome}")),
            None => self.broken(Promise::NothingStuck, "its last retry got no answer".to_owned()),
        }
    }

    /// Looks for faults that hit one of the calls up to the first response. Later calls find the record, so their
    /// faults do not matter.
    fn look_for_faults(&mut self, first: Option<First>) {
        let until = |attempt: &&&Attempt| first.is_none_or(|first| attempt.begun < first.at);
        let attempts: Vec<_> = self.asked.iter().filter(until).copied().collect();
        let (rules, faults) = (self.evidence.rules, &self.evidence.entries.faults);
        self.hit = rules.hit(&attempts, faults);
        let losing: Vec<_> = faults.iter().filter(|fault| !fault.kind.loses_nothing()).copied().collect();
        // A COMMIT that is not answered keeps its handler for longer than the lease, and the next fault may hit it.
        self.may_be_unknown = rules.hit_within(&attempts, &losing, Duration::MAX);
    }

    /// Whether the server of this attempt ran the operation unprotected in the meantime.
    fn ran_unprotected(&self, attempt: &Attempt) -> bool {
        let ended = attempt.ended.as_ref().map_or(Duration::MAX, |(ended, _)| *ended);
        let during = |run: &&&UnprotectedRun| attempt.begun <= run.ran && run.ran <= ended;
        self.unprotected.iter().filter(during).any(|run| run.server == attempt.server)
    }

    /// Whether it was refused because another request with its key was executed, which is a broken promise itself.
    fn is_displaced(&self, reason: Option<Reason>) -> bool {
        reason == Some(Reason::KeyReused) && !self.evidence.rows.of(self.number, Variant::Changed).is_empty()
    }

    fn broken(&mut self, promise: Promise, what: String) {
        let excused = self.evidence.rules.excuse_loss(promise, &self.evidence.entries.faults);
        self.note(excused, promise, what);
    }

    fn note(&mut self, excused: bool, promise: Promise, what: String) {
        let list = if excused { &mut self.verdict.losses } else { &mut self.verdict.violations };
        list.push(Violation { operation: Some(self.number), promise, what });
    }
}
