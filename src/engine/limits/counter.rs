//! Counts the uses of something limited, for all callers together and for each.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    caller::OwnerId,
    policy::Limit,
    rejection::{Exceeded, LimitKind, Party},
};

/// Counts the uses of something limited. A user counts in each scope as a caller of its own; all calls without a user count as those of
/// one caller.
#[derive(Debug)]
pub(in crate::engine) struct Counter {
    of: LimitKind,
    limit: Limit,
    /// The count of all callers. It changes only under the lock.
    all: AtomicUsize,
    /// The counts of callers. One whose count is zero has no entry.
    of_callers: Mutex<HashMap<Option<OwnerId>, usize>>,
}

impl Counter {
    pub(in crate::engine) fn new(of: LimitKind, limit: Limit) -> Self {
        Self { of, limit, all: AtomicUsize::new(0), of_callers: Mutex::default() }
    }

    /// Counts one more, or rejects it. The caller's own limit is checked first, because it tells the caller more.
    pub(in crate::engine) fn enter(&self, caller: Option<OwnerId>) -> Result<(), Exceeded> {
        let mut counts = self.lock();
        let count = counts.get(&caller).copied().unwrap_or_default();
        self.compare(count)?;
        counts.insert(caller, count + 1);
        self.all.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Counts one more, also beyond the limit. Returns how many there were.
    pub(in crate::engine) fn add(&self, caller: Option<OwnerId>) -> usize {
        let mut counts = self.lock();
        *counts.entry(caller).or_default() += 1;
        self.all.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns an error if one more would be beyond the limit. Takes no lock while there are none.
    pub(in crate::engine) fn check(&self, caller: Option<OwnerId>) -> Result<(), Exceeded> {
        let count = match self.all.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.lock().get(&caller).copied().unwrap_or_default(),
        };
        self.compare(count)
    }

    /// Counts one less.
    pub(in crate::engine) fn leave(&self, caller: Option<OwnerId>) {
        let mut counts = self.lock();
        self.all.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = counts.get_mut(&caller) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&caller);
            }
        }
    }

    pub(in crate::engine) fn limit(&self) -> Limit {
        self.limit
    }

    /// Compares the limit with what there is of all callers, and of one.
    fn compare(&self, of_caller: usize) -> Result<(), Exceeded> {
        let of = match self.all.load(Ordering::Relaxed) {
            _ if of_caller >= self.limit.caller => Party::Caller,
            all if all >= self.limit.server => Party::Server,
            _ => return Ok(()),
        };
        Err(Exceeded { limit: self.of, of })
    }

    /// Ignores poisoning: no operation leaves the counts half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<OwnerId>, usize>> {
        self.of_callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn caller(id: u128) -> Option<OwnerId> {
        Some(OwnerId::new(Uuid::from_u128(id)))
    }

    #[test]
    fn refuses_beyond_the_limit_of_a_caller_and_of_all_and_forgets_who_has_none() {
        let counter = Counter::new(LimitKind::InFlight, Limit::new(3, 2));
        let refused = |caller| counter.enter(caller).map_err(|exceeded| exceeded.of);
        assert_eq!((refused(caller(1)), refused(caller(1))), (Ok(()), Ok(())));
        assert_eq!(refused(caller(1)), Err(Party::Caller));
        assert_eq!(refused(None), Ok(()), "calls without a user are one caller's");
        assert_eq!(refused(caller(2)), Err(Party::Server));
        counter.leave(caller(1));
        assert_eq!(refused(caller(2)), Ok(()));
        [caller(1), caller(2), None].into_iter().for_each(|caller| counter.leave(caller));
        assert!(counter.lock().is_empty() && counter.all.load(Ordering::Relaxed) == 0);
    }

    #[test]
    fn of_none_refuses_all() {
        assert!(Counter::new(LimitKind::Waiting, Limit::new(0, 5)).enter(None).is_err());
        assert!(Counter::new(LimitKind::Waiting, Limit::new(5, 0)).enter(None).is_err());
    }

    #[test]
    fn counts_beyond_the_limit_what_cannot_be_refused() {
        let counter = Counter::new(LimitKind::Unrecorded, Limit::new(1, 1));
        assert_eq!((counter.add(None), counter.add(None)), (0, 1));
        assert!(counter.check(caller(1)).is_err());
        counter.leave(None);
        counter.leave(None);
        assert!(counter.check(None).is_ok());
    }
}
