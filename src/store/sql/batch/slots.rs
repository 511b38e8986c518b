//! Limits the statements of a kind that are under way at once.

use std::time::Duration;

use tokio::time::Instant;

use super::concurrency::Concurrency;

/// The number of slow batches of a kind beside which a further statement may run.
const MAX_SLOW: usize = 3;

/// The age from which a statement is slow, and no longer keeps others from running.
pub(super) const SLOW: Duration = Duration::from_millis(100);

/// The statements of a kind that are under way.
#[derive(Debug, Default)]
pub(super) struct Slots {
    concurrency: Concurrency,
    taken: Vec<TakenSlot>,
    next: u64,
}

#[derive(Debug)]
struct TakenSlot {
    id: u64,
    begun: Instant,
    /// Whether it is for batches. The statement of one call is forgotten when it is slow.
    batches: bool,
}

impl Slots {
    /// Takes a slot, if another statement may run.
    pub(super) fn take(&mut self, batches: bool) -> Option<u64> {
        let now = Instant::now();
        let is_quick = |taken: &TakenSlot| now.duration_since(taken.begun) < SLOW;
        self.taken.retain(|taken| taken.batches || is_quick(taken));
        let quick = self.taken.iter().filter(|taken| is_quick(taken)).count();
        let slow = self.taken.len() - quick;
        if quick >= self.concurrency.statements() || batches && slow > MAX_SLOW {
            return None;
        }
        let id = self.next;
        self.next += 1;
        self.taken.push(TakenSlot { id, begun: now, batches });
        Some(id)
    }

    /// Returns whether a statement for batches is under way.
    pub(super) fn have_batches(&self) -> bool {
        self.taken.iter().any(|taken| taken.batches)
    }

    /// Notes that the next statement in the slot begins.
    pub(super) fn begin(&mut self, slot: u64) {
        if let Some(taken) = self.taken.iter_mut().find(|taken| taken.id == slot) {
            taken.begun = Instant::now();
        }
    }

    /// Notes that the next statement in the slot begins, and is that of one call.
    pub(super) fn begin_alone(&mut self, slot: u64) {
        self.begin(slot);
        self.taken.iter_mut().filter(|taken| taken.id == slot).for_each(|taken| taken.batches = false);
    }

    /// Notes how long a statement has taken.
    pub(super) fn note(&mut self, took: Duration) {
        self.concurrency.note(took);
    }

    pub(super) fn free(&mut self, slot: u64) {
        self.taken.retain(|taken| taken.id != slot);
    }
}
