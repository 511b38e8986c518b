//! The connections of a pool that are parked, and the claims whose connection is lost.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

/// The parked connections of a pool.
#[derive(Debug, Default)]
pub(in crate::store::sql) struct ParkedConnections {
    state: Mutex<State>,
    came: Notify,
}

#[derive(Debug, Default)]
struct State {
    places: BTreeMap<u64, Place>,
    next: u64,
    /// Whether a task asks about them.
    is_asking: bool,
}

#[derive(Debug)]
struct Place {
    /// When the statement was sent.
    sent: Instant,
    /// Whether it is of a claim, without a connection.
    of_claim: bool,
    /// Its drop signals that the statement has ended.
    _held: oneshot::Sender<()>,
}

impl ParkedConnections {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a further connection is parked.
    pub(super) async fn another(&self) {
        self.came.notified().await;
    }

    /// Returns the places and the age of the youngest statement; `None` if there are no places: then the task ends.
    pub(super) fn asks(&self) -> Option<(Vec<u64>, Duration)> {
        let mut state = self.state();
        let youngest = state.places.values().map(|place| place.sent.elapsed()).min();
        state.is_asking = youngest.is_some();
        Some((state.places.keys().copied().collect(), youngest?))
    }

    /// Gives up as many of these places as there are more of than running statements. It is not known which place a running statement
    /// belongs to: the place of one connection is as good as that of any other, but a claim is given up only if no statement runs.
    pub(super) fn found(&self, asked_for: &[u64], running: usize) {
        let mut state = self.state();
        let is_given_up = |place: &&u64| state.places.get(place).is_some_and(|it| !it.of_claim || running == 0);
        let there: Vec<_> = asked_for.iter().filter(is_given_up).collect();
        for place in &there[..there.len().saturating_sub(running)] {
            state.places.remove(place);
        }
    }
}

/// Holds the place of a connection, and leaves it when dropped.
pub(super) struct Ticket<'a>(&'a ParkedConnections, u64);

impl<'a> Ticket<'a> {
    /// Also returns whether a task has to be started that asks.
    pub(super) fn take(
        parked: &'a ParkedConnections,
        sent: Instant,
        of_claim: bool,
    ) -> (Self, oneshot::Receiver<()>, bool) {
        let (held, ended) = oneshot::channel();
        let mut state = parked.state();
        let place = state.next;
        state.next += 1;
        state.places.insert(place, Place { sent, of_claim, _held: held });
        let begins = !mem::replace(&mut state.is_asking, true);
        parked.came.notify_one();
        (Self(parked, place), ended, begins)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.0.state().places.remove(&self.1);
    }
}

/// A task that asks. If it is dropped before its [end](Self::end), with its runtime, another task may ask.
pub(super) struct InquiryTask<'a>(&'a ParkedConnections);

impl<'a> InquiryTask<'a> {
    pub(super) fn new(parked: &'a ParkedConnections) -> Self {
        Self(parked)
    }

    /// Ends the task. No connection is parked any more.
    pub(super) fn end(self) {
        mem::forget(self);
    }
}

impl Drop for InquiryTask<'_> {
    fn drop(&mut self) {
        self.0.state().is_asking = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_given_up_only_if_no_statement_runs_that_may_be_its_own() {
        let parked = ParkedConnections::default();
        let sent = Instant::now();
        let places = [true, false, false].map(|of_claim| Ticket::take(&parked, sent, of_claim));
        let (asked_for, _) = parked.asks().expect("three places");
        let left = |running| {
            parked.found(&asked_for, running);
            parked.state().places.len()
        };
        assert_eq!(left(1), 2, "the claim, and one of two connections");
        assert!(parked.state().places.values().any(|place| place.of_claim));
        assert_eq!(left(0), 0);
        drop(places);
    }
}
