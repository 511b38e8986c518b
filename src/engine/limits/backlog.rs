//! The outcomes that wait to be recorded, and the limits of their number and size.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{
    caller::OwnerId,
    engine::limits::counter::Counter,
    policy::Limit,
    rejection::{Exceeded, LimitKind},
    telemetry,
};

/// The maximum total size of the responses in the outcomes, in bytes.
pub(crate) const BYTES: usize = 64 << 20;

/// The outcomes that wait to be recorded, because the store did not take them at once.
///
/// An outcome of a call that holds its key always finds a place: without its record, a retry would run the handler again.
/// Instead, no more keys are claimed while the backlog is full. An outcome of a call that is not known to hold its key takes
/// a place only while half of them are free.
pub(crate) struct Backlog {
    outcomes: Counter,
    max_bytes: usize,
    bytes: AtomicUsize,
}

impl Backlog {
    pub(crate) fn new(outcomes: Limit, max_bytes: usize) -> Arc<Self> {
        let outcomes = Counter::new(LimitKind::Unrecorded, outcomes.at_least_one());
        Arc::new(Self { outcomes, max_bytes, bytes: AtomicUsize::new(0) })
    }

    /// Returns an error if no more keys of this caller may be claimed.
    pub(in crate::engine) fn check(&self, owner: Option<OwnerId>) -> Result<(), Exceeded> {
        self.outcomes.check(owner)
    }

    /// Takes a place for an outcome; `None` if the call is not known to hold its key, and half of the places are taken.
    pub(in crate::engine) fn enter(self: &Arc<Self>, owner: Option<OwnerId>, holds_key: bool) -> Option<Place> {
        let taken = self.outcomes.add(owner);
        let place = Place { backlog: Arc::clone(self), owner, bytes: 0 };
        telemetry::outcome_waits();
        (holds_key || taken < self.outcomes.limit().server / 2).then_some(place)
    }
}

/// The place of an outcome in the backlog, until this is dropped.
pub(in crate::engine) struct Place {
    backlog: Arc<Backlog>,
    owner: Option<OwnerId>,
    bytes: usize,
}

impl Place {
    /// Takes memory for the response in the outcome; returns `false` if there is not enough.
    pub(in crate::engine) fn take_memory(&mut self, bytes: usize) -> bool {
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
        self.backlog.outcomes.leave(self.owner);
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        telemetry::outcome_waits_no_more();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_every_outcome_of_a_held_key_and_is_full_meanwhile() {
        let backlog = Backlog::new(Limit::new(2, 2), 0);
        let places: Vec<_> = (1..=3)
            .map(|taken| {
                let place = backlog.enter(None, true).expect("a place");
                assert_eq!(backlog.check(None).is_err(), taken >= 2);
                place
            })
            .collect();
        drop(places);
        assert!(backlog.check(None).is_ok());
    }

    #[test]
    fn takes_other_outcomes_up_to_half_of_its_places() {
        let backlog = Backlog::new(Limit::new(4, 4), 0);
        let _places = [backlog.enter(None, false).expect("a place"), backlog.enter(None, true).expect("a place")];
        assert!(backlog.enter(None, false).is_none());
        assert!(backlog.enter(None, false).is_none(), "a refusal takes no place");
        let _third = backlog.enter(None, true).expect("a place");
        assert!(backlog.check(None).is_ok());
    }

    #[test]
    fn gives_memory_up_to_its_limit_and_takes_it_back() {
        let backlog = Backlog::new(Limit::new(4, 4), 100);
        let enter = || backlog.enter(None, true).expect("a place");
        let (mut one, mut other) = (enter(), enter());
        assert!(one.take_memory(60) && !other.take_memory(41) && !other.take_memory(usize::MAX));
        assert!(other.take_memory(40));
        drop(one);
        assert!(!enter().take_memory(61) && enter().take_memory(60));
    }
}
