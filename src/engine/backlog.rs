//! The outcomes that wait to be recorded, and how many of them there may be.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::telemetry;

/// The outcomes that wait to be recorded, because the store did not take them at once.
///
/// An outcome of a call that holds its key always finds a place: without its record, a retry would run the handler again.
/// Instead, no more keys are claimed while the backlog is full. An outcome of a call that is not known to hold its key takes
/// a place only while half of them are free.
pub(crate) struct Backlog {
    max_outcomes: usize,
    max_bytes: usize,
    outcomes: AtomicUsize,
    bytes: AtomicUsize,
}

impl Backlog {
    /// A backlog of at most this many outcomes, at least one, and this many bytes of responses.
    pub(crate) fn new(max_outcomes: usize, max_bytes: usize) -> Arc<Self> {
        let max_outcomes = max_outcomes.max(1);
        Arc::new(Self { max_outcomes, max_bytes, outcomes: AtomicUsize::new(0), bytes: AtomicUsize::new(0) })
    }

    /// Whether no more keys may be claimed.
    pub(super) fn is_full(&self) -> bool {
        self.outcomes.load(Ordering::Relaxed) >= self.max_outcomes
    }

    /// Takes a place for an outcome; `None` if the call is not known to hold its key, and half of the places are taken.
    pub(super) fn enter(self: &Arc<Self>, holds_key: bool) -> Option<Place> {
        let taken = self.outcomes.fetch_add(1, Ordering::Relaxed);
        let place = Place { backlog: Arc::clone(self), bytes: 0 };
        telemetry::outcome_waits();
        (holds_key || taken < self.max_outcomes / 2).then_some(place)
    }
}

/// The place of an outcome in the backlog, until this is dropped.
pub(super) struct Place {
    backlog: Arc<Backlog>,
    bytes: usize,
}

impl Place {
    /// Takes memory for the response in the outcome; returns `false` if there is not enough.
    pub(super) fn take_memory(&mut self, bytes: usize) -> bool {
        let Backlog { max_bytes, bytes: taken, .. } = &*self.backlog;
        let enough = |taken: usize| taken.checked_add(bytes).filter(|taken| taken <= max_bytes);
        let fits = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).is_ok();
        if fits {
            self.bytes += bytes;
        }
        fits
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.backlog.outcomes.fetch_sub(1, Ordering::Relaxed);
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        telemetry::outcome_waits_no_more();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_every_outcome_of_a_held_key_and_is_full_meanwhile() {
        let backlog = Backlog::new(2, 0);
        let places: Vec<_> = (1..=3)
            .map(|taken| {
                let place = backlog.enter(true).expect("a place");
                assert_eq!(backlog.is_full(), taken >= 2);
                place
            })
            .collect();
        drop(places);
        assert!(!backlog.is_full());
    }

    #[test]
    fn takes_other_outcomes_up_to_half_of_its_places() {
        let backlog = Backlog::new(4, 0);
        let _places = [backlog.enter(false).expect("a place"), backlog.enter(true).expect("a place")];
        assert!(backlog.enter(false).is_none());
        assert!(backlog.enter(false).is_none(), "a refusal takes no place");
        let _third = backlog.enter(true).expect("a place");
        assert!(!backlog.is_full());
    }

    #[test]
    fn gives_memory_up_to_its_limit_and_takes_it_back() {
        let backlog = Backlog::new(4, 100);
        let enter = || backlog.enter(true).expect("a place");
        let (mut one, mut other) = (enter(), enter());
        assert!(one.take_memory(60) && !other.take_memory(41) && !other.take_memory(usize::MAX));
        assert!(other.take_memory(40));
        drop(one);
        assert!(!enter().take_memory(61) && enter().take_memory(60));
    }
}
