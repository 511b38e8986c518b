//! Sends calls alone while the batches of their kind fail.

use std::sync::atomic::{AtomicU8, Ordering};

/// The number of failures in a row after which calls are sent alone.
const MAX: u8 = 8;

/// One in this many calls still tries a batch.
const TRIES: u8 = 64;

/// Whether all batches of a kind fail: a policy of the application may raise an error only in them. One success resets the count, because
/// the failures may be the work of a single caller.
#[derive(Debug, Default)]
pub(super) struct Refusals(AtomicU8);

impl Refusals {
    pub(super) fn note(&self, refused: bool) {
        let before = self.0.load(Ordering::Relaxed);
        let next = if refused { MAX.min(before + 1) } else { 0 };
        if next != before {
            self.0.store(next, Ordering::Relaxed);
        }
    }

    /// Returns whether a call may be sent in a batch.
    pub(super) fn allow(&self) -> bool {
        self.0.load(Ordering::Relaxed) < MAX || fastrand::u8(..TRIES) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_few_calls_while_every_statement_fails_and_all_after_one_that_did_not() {
        let refusals = Refusals::default();
        let allowed = || (0..6400).filter(|_| refusals.allow()).count();
        (1..MAX).for_each(|_| refusals.note(true));
        assert_eq!(allowed(), 6400);
        refusals.note(true);
        refusals.note(true);
        assert!((1..640).contains(&allowed()));
        refusals.note(false);
        assert_eq!(allowed(), 6400);
    }
}
