//! The numbers of a run.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use clap::ValueEnum as _;

use crate::{
    fault::FaultKind,
    journal::{Entries, Purpose},
    mode::Mode,
    outcome::{Outcome, Reason},
    step::Step,
};

/// The ends of calls, as the table names them.
const ANSWERS: [&str; 11] = [
    "acknowledged",
    "of these, replays",
    "refused: the first call is in flight",
    "refused: the key is of another request",
    "refused: the outcome is unknown",
    "refused: no store",
    "refused: too many calls",
    "other failures",
    "broken connections",
    "no answer in time",
    "hung up by the client",
];

/// The counts of what happened.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The time in which the witnesses could not ask the database, added up.
    pub(crate) blackouts: Duration,
    pub(crate) calls: usize,
    /// The calls by their ends.
    pub(crate) answers: Vec<(&'static str, usize)>,
    pub(crate) faults: BTreeMap<FaultKind, usize>,
    /// The runs of handlers of calls with keys.
    pub(crate) runs: usize,
    pub(crate) starts: usize,
    pub(crate) failed_starts: usize,
    pub(crate) takeovers: usize,
    pub(crate) given_up: usize,
    /// Operations for which a client has a response, last retries not counted.
    pub(crate) acknowledged: usize,
    /// Operations that only the last retry executed, or found executed.
    pub(crate) acknowledged_last: usize,
    /// The steps that no call passed, so that no fault at them was tested.
    pub(crate) missed: Vec<Step>,
}

impl Tally {
    pub(crate) fn new(entries: &Entries, mode: Mode) -> Self {
        let steps = Step::value_variants().iter().copied();
        let mut tally = Self {
            blackouts: entries.blackouts.iter().map(|blackout| blackout.ended - blackout.begun).sum(),
            calls: entries.attempts.len(),
            runs: entries.runs.len(),
            starts: entries.starts,
            failed_starts: entries.failed_starts,
            takeovers: entries.takeovers,
            given_up: entries.given_up.len(),
            answers: ANSWERS.map(|name| (name, 0)).to_vec(),
            missed: steps.filter(|step| step.is_of(mode) && !entries.passed.contains(step)).collect(),
            ..Self::default()
        };
        for fault in &entries.faults {
            *tally.faults.entry(fault.kind).or_default() += 1;
        }
        let (mut before, mut last) = (HashSet::new(), HashSet::new());
        for attempt in &entries.attempts {
            let Some(outcome) = attempt.outcome() else { continue };
            tally.answers[place(outcome)].1 += 1;
            if let Some(acknowledgement) = outcome.acknowledgement() {
                tally.answers[1].1 += usize::from(acknowledgement.replayed);
                let acknowledged = if attempt.purpose == Purpose::Final { &mut last } else { &mut before };
                acknowledged.insert(attempt.operation);
            }
        }
        tally.acknowledged = before.len();
        tally.acknowledged_last = last.difference(&before).count();
        tally
    }
}

/// The place of a call's end in [`ANSWERS`].
fn place(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Acknowledged(_) => 0,
        Outcome::Failed(failure) => match failure.reason {
            _ if !failure.answered => 8,
            Some(Reason::InProgress) => 2,
            Some(Reason::KeyReused) => 3,
            Some(Reason::OutcomeUnknown) => 4,
            Some(Reason::StoreUnavailable) => 5,
            Some(Reason::Overloaded) => 6,
            Some(Reason::Other | Reason::StoreFailed) | None => 7,
        },
        Outcome::TimedOut => 9,
        Outcome::HungUp => 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_steps_of_the_mode_that_no_call_passed() {
        let mut entries = Entries::default();
        let steps = Step::value_variants().iter().copied();
        entries.passed.extend(steps.filter(|step| step.is_of(Mode::Transactional)));
        assert_eq!(Tally::new(&entries, Mode::Transactional).missed, []);
        assert_eq!(Tally::new(&entries, Mode::Reserved).missed, [Step::HandlerCommitted]);
    }
}
