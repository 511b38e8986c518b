//! Adapts the number of concurrent statements to the speed of the server.

use std::time::Duration;

/// The time up to which one statement at a time is best: a server that is near, and has a fast disk, takes less.
const NEAR: Duration = Duration::from_micros(600);

/// The further time that allows each further statement.
const SHARE: Duration = Duration::from_micros(400);

/// The most statements of a kind that run at a time.
const MOST: u128 = 4;

/// Window size: it follows the fastest statement of this window and the one before.
const LAST: u32 = 64;

/// The number of statements of a kind that may be under way at a time.
///
/// A call that finds one under way waits for it. If the server is near, that is not long, and one statement at a time does the most calls.
/// If the network or the disk is slow, a statement waits most of its time, and others may run meanwhile. The fastest of the recent
/// statements tells a slow path from a busy server.
#[derive(Debug, Default)]
pub(super) struct Concurrency {
    quickest: Option<Duration>,
    /// The fastest of the current window, and the number of its statements.
    next: Option<Duration>,
    noted: u32,
}

impl Concurrency {
    /// Notes how long a statement has taken.
    pub(super) fn note(&mut self, took: Duration) {
        let least = |least: Option<Duration>| Some(least.map_or(took, |least| least.min(took)));
        (self.quickest, self.next) = (least(self.quickest), least(self.next));
        self.noted += 1;
        if self.noted == LAST {
            *self = Self { quickest: self.next, ..Self::default() };
        }
    }

    /// Returns how many statements may be under way.
    pub(super) fn statements(&self) -> usize {
        let beyond = self.quickest.unwrap_or_default().saturating_sub(NEAR);
        let more = (beyond.as_micros() / SHARE.as_micros()).min(MOST - 1);
        1 + usize::try_from(more).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(concurrency: &mut Concurrency, times: u32, micros: u64) -> usize {
        (0..times).for_each(|_| concurrency.note(Duration::from_micros(micros)));
        concurrency.statements()
    }

    #[test]
    fn allows_more_statements_the_longer_the_quickest_takes() {
        let allowed = [0, 300, 999, 1_000, 1_399, 1_400, 1_800, 60_000_000].map(|micros| {
            let mut concurrency = Concurrency::default();
            assert_eq!(concurrency.statements(), 1);
            noted(&mut concurrency, 1, micros)
        });
        assert_eq!(allowed, [1, 1, 1, 2, 2, 3, 4, 4]);
    }

    #[test]
    fn takes_a_busy_server_for_a_near_one_and_forgets_a_way_that_it_has_no_longer() {
        let mut concurrency = Concurrency::default();
        assert_eq!(noted(&mut concurrency, 1, 500), 1);
        assert_eq!(noted(&mut concurrency, LAST - 1, 5_000), 1);
        assert_eq!(noted(&mut concurrency, LAST - 1, 5_000), 1);
        assert_eq!(noted(&mut concurrency, 1, 5_000), 4);
        assert_eq!(noted(&mut concurrency, 1, 500), 1);
    }
}
