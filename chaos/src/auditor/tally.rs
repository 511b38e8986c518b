//! The numbers of a run.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use crate::{
    fault::FaultKind,
    journal::{Entries, Purpose},
    mode::Mode,
    outcome::{Outcome, Reason},
    step::Step,
};

/// The counts of what happened.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The time in which the witnesses could not ask the database, added up.
    pub(crate) blackouts: Duration,
    pub(crate) calls: usize,
    pub(crate) faults: BTreeMap<FaultKind, usize>,
    pub(crate) starts: usize,
    pub(crate) failed_starts: usize,
    pub(crate) takeovers: usize,
    pub(crate) given_up: usize,
    pub(crate) acknowledged_calls: usize,
    pub(crate) replays: usize,
    /// Calls that shared a statement with others.
    pub(crate) shared: usize,
    /// Operations for which a client has a response, last retries not counted.
    pub(crate) acknowledged: usize,
    /// Operations that only the last retry executed, or found executed.
    pub(crate) acknowledged_last: usize,
    pub(crate) in_flight: usize,
    pub(crate) mismatches: usize,
    pub(crate) overloaded: usize,
    pub(crate) store_unavailable: usize,
    pub(crate) unknown: usize,
    pub(crate) other_failures: usize,
    pub(crate) broken_connections: usize,
    pub(crate) timeouts: usize,
    pub(crate) hang_ups: usize,
    /// The steps that no call passed, so that no fault at them was tested.
    pub(crate) missed: Vec<Step>,
}

impl Tally {
    pub(crate) fn new(entries: &Entries, mode: Mode) -> Self {
        let mut tally = Self {
            blackouts: entries.blackouts.iter().map(|blackout| blackout.ended - blackout.begun).sum(),
            calls: entries.attempts.len(),
            starts: entries.starts,
            failed_starts: entries.failed_starts,
            shared: entries.shared,
            takeovers: entries.takeovers,
            given_up: entries.given_up.len(),
            missed: Step::of(mode).into_iter().filter(|step| !entries.passed.contains(step)).collect(),
            ..Self::default()
        };
        for fault in &entries.faults {
            *tally.faults.entry(fault.kind).or_default() += 1;
        }
        let (mut before, mut last) = (HashSet::new(), HashSet::new());
        for attempt in &entries.attempts {
            let Some(outcome) = attempt.outcome() else { continue };
            tally.add(outcome);
            if outcome.acknowledgement().is_some() {
                let acknowledged = if attempt.purpose == Purpose::Final { &mut last } else { &mut before };
                acknowledged.insert(attempt.operation);
            }
        }
        tally.acknowledged = before.len();
        tally.acknowledged_last = last.difference(&before).count();
        tally
    }

    fn add(&mut self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Acknowledged(acknowledgement) => {
                self.replays += usize::from(acknowledgement.replayed);
                &mut self.acknowledged_calls
            }
            Outcome::Failed(failure) => match failure.reason {
                _ if !failure.answered => &mut self.broken_connections,
                Some(Reason::InProgress) => &mut self.in_flight,
                Some(Reason::KeyReused) => &mut self.mismatches,
                Some(Reason::OutcomeUnknown) => &mut self.unknown,
                Some(Reason::StoreUnavailable) => &mut self.store_unavailable,
                Some(Reason::Overloaded) => &mut self.overloaded,
                Some(Reason::Other | Reason::StoreFailed) | None => &mut self.other_failures,
            },
            Outcome::HungUp => &mut self.hang_ups,
            Outcome::TimedOut => &mut self.timeouts,
        };
        *counter += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_steps_of_the_mode_that_no_call_passed() {
        let mut entries = Entries::default();
        entries.passed.extend(Step::of(Mode::Transactional));
        assert_eq!(Tally::new(&entries, Mode::Transactional).missed, []);
        assert_eq!(Tally::new(&entries, Mode::Reserved).missed, [Step::HandlerCommitted]);
    }
}
