//! Measures how long a handler uses the connection of its transaction.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::store::TransactionTimes;

/// Whether and how long a handler has used the connection of its transaction. Each [`Session`](super::Session) has one, and each of its
/// statements an [`InUse`].
pub struct Usage {
    opened: Instant,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// The time of the statements that have ended; statements that overlapped count once.
    worked: Duration,
    /// The number of statements under way, and the time since which it is not zero.
    under_way: usize,
    since: Option<Instant>,
    was_used: bool,
}

impl Usage {
    /// Begins with the transaction.
    #[expect(clippy::new_without_default, reason = "it begins at this time")]
    pub fn new() -> Self {
        Self { opened: Instant::now(), counts: Mutex::default() }
    }

    /// Counts the connection as in use until the result is dropped.
    pub fn begin(self: &Arc<Self>) -> InUse {
        let mut counts = self.counts();
        counts.was_used = true;
        counts.under_way += 1;
        counts.since.get_or_insert_with(Instant::now);
        drop(counts);
        InUse { usage: Arc::clone(self) }
    }

    /// Returns whether the handler has used the connection.
    pub fn was_used(&self) -> bool {
        self.counts().was_used
    }

    /// Returns how long the connection was in use until now, and how long it was not.
    pub fn times(&self) -> TransactionTimes {
        let counts = self.counts();
        let working = counts.worked + counts.since.map_or_else(Default::default, |since| since.elapsed());
        TransactionTimes { working, idle: self.opened.elapsed().saturating_sub(working) }
    }

    /// Ignores poisoning: no operation leaves the counts half changed.
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Usage").field(&self.times()).finish()
    }
}

/// A use of a transaction's connection: a statement, until its answer, or as long as the handler has the connection to itself.
#[derive(Debug)]
pub struct InUse {
    usage: Arc<Usage>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut counts = self.usage.counts();
        counts.under_way -= 1;
        if counts.under_way == 0
            && let Some(since) = counts.since.take()
        {
            counts.worked += since.elapsed();
        }
    }
}
