//! Counts the uses of something limited, for all callers together and for each.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    caller::OwnerId,
    policy::Limit,
    rejection::{Exceeded, Limited, Party},
};

/// Counts the uses of something limited. A user counts in each scope as a caller of its own; all calls without a user count as those of
/// one caller.
#[derive(Debug)]
pub(in crate::engine) struct Counter {
    of: Limited,
    limit: Limit,
    counts: Mutex<Counts>,
}

/// The counts. A caller whose count is zero has no entry.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    of_callers: HashMap<Option<OwnerId>, usize>,
}

impl Counter {
    pub(in crate::engine) fn new(of: Limited, limit: Limit) -> Self {
        Self { of, limit, counts: Mutex::default() }
    }

    /// Counts one more, or refuses it. The caller's own limit is checked first, because it tells the caller more.
    pub(in crate::engine) fn enter(&self, caller: Option<OwnerId>) -> Result<(), Exceeded> {
        let mut counts = self.lock();
        counts.check(caller, self.limit).map_err(|party| Exceeded { limit: self.of, of: party })?;
        counts.add(caller);
        Ok(())
    }

    /// Counts one more, also beyond the limit. Returns how many there were.
    pub(in crate::engine) fn add(&self, caller: Option<OwnerId>) -> usize {
        let mut counts = self.lock();
        counts.add(caller);
        counts.all - 1
    }

    /// Returns an error if one more would be beyond the limit.
    pub(in crate::engine) fn check(&self, caller: Option<OwnerId>) -> Result<(), Exceeded> {
        self.lock().check(caller, self.limit).map_err(|party| Exceeded { limit: self.of, of: party })
    }

    /// Counts one less.
    pub(in crate::engine) fn leave(&self, caller: Option<OwnerId>) {
        let mut counts = self.lock();
        counts.all -= 1;
        if let Some(count) = counts.of_callers.get_mut(&caller) {
            *count -= 1;
            if *count == 0 {
                counts.of_callers.remove(&caller);
            }
        }
    }

    pub(in crate::engine) fn limit(&self) -> Limit {
        self.limit
    }

    /// Ignores poisoning: no operation leaves the counts half changed.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn check(&self, caller: Option<OwnerId>, limit: Limit) -> Result<(), Party> {
        if self.of_callers.get(&caller).is_some_and(|count| *count >= limit.caller) || limit.caller == 0 {
            return Err(Party::Caller);
        }
        if self.all >= limit.server { Err(Party::Server) } else { Ok(()) }
    }

    fn add(&mut self, caller: Option<OwnerId>) {
        self.all += 1;
        *self.of_callers.entry(caller).or_default() += 1;
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
        let counter = Counter::new(Limited::InFlight, Limit::new(3, 2));
        let refused = |caller| counter.enter(caller).map_err(|exceeded| exceeded.of);
        assert_eq!((refused(caller(1)), refused(caller(1))), (Ok(()), Ok(())));
        assert_eq!(refused(caller(1)), Err(Party::Caller));
        assert_eq!(refused(None), Ok(()), "callers without a user are another one");
        assert_eq!(refused(caller(2)), Err(Party::Server));
        counter.leave(caller(1));
        assert_eq!(refused(caller(2)), Ok(()));
        [caller(1), caller(2), None].into_iter().for_each(|caller| counter.leave(caller));
        assert!(counter.lock().of_callers.is_empty() && counter.lock().all == 0);
    }

    #[test]
    fn of_none_refuses_all() {
        assert!(Counter::new(Limited::Waiting, Limit::new(0, 5)).enter(None).is_err());
        assert!(Counter::new(Limited::Waiting, Limit::new(5, 0)).enter(None).is_err());
    }

    #[test]
    fn counts_beyond_the_limit_what_cannot_be_refused() {
        let counter = Counter::new(Limited::Unrecorded, Limit::new(1, 1));
        assert_eq!((counter.add(None), counter.add(None)), (0, 1));
        assert!(counter.check(caller(1)).is_err());
        counter.leave(None);
        counter.leave(None);
        assert!(counter.check(None).is_ok());
    }
}
