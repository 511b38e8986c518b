//! The limits of requests that wait for the end of a call.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{caller::OwnerId, rejection::Limit, telemetry};

/// The largest numbers of requests that wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) all: usize,
    pub(super) of_user: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { all: 1024, of_user: 32 }
    }
}

/// The requests that wait, counted.
#[derive(Debug)]
pub(super) struct Waiters {
    limits: Limits,
    counts: Mutex<Counts>,
}

/// Only users with requests have an entry.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    of_users: HashMap<OwnerId, usize>,
}

impl Waiters {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, counts: Mutex::default() })
    }

    /// Counts a request until the result is dropped. Checks the caller's own limit first, since it says more.
    pub(super) fn admit(self: &Arc<Self>, owner: OwnerId) -> Result<Waiter, Limit> {
        let mut counts = self.lock();
        if counts.of_users.get(&owner).copied().unwrap_or_default() >= self.limits.of_user {
            return Err(Limit::WatchingPerUser);
        }
        if counts.all >= self.limits.all {
            return Err(Limit::Watching);
        }
        counts.all += 1;
        *counts.of_users.entry(owner).or_default() += 1;
        drop(counts);
        telemetry::watching(1);
        Ok(Waiter { waiters: Arc::clone(self), owner })
    }

    /// Ignores poisoning: no operation leaves the counts half changed.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Waiter {
    waiters: Arc<Waiters>,
    owner: OwnerId,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut counts = self.waiters.lock();
        counts.all -= 1;
        if let Some(count) = counts.of_users.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                counts.of_users.remove(&self.owner);
            }
        }
        drop(counts);
        telemetry::watching(-1);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn are_refused_beyond_the_limit_of_a_user_and_of_all_and_forgotten() {
        let owner = |id| OwnerId::new(Uuid::from_u128(id));
        let waiters = Waiters::new(Limits { all: 3, of_user: 2 });
        let first = waiters.admit(owner(1)).expect("the first");
        let second = waiters.admit(owner(1)).expect("the second");
        assert_eq!(waiters.admit(owner(1)).err(), Some(Limit::WatchingPerUser));
        let third = waiters.admit(owner(2)).expect("another user's");
        assert_eq!(waiters.admit(owner(2)).err(), Some(Limit::Watching));
        drop(first);
        drop(waiters.admit(owner(2)).expect("one has ended"));
        drop((second, third));
        let counts = waiters.lock();
        assert!(counts.of_users.is_empty() && counts.all == 0);
    }
}
