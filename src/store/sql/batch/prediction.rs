//! Predicts whether a claim finds a record, which is then looked for first.

use std::sync::atomic::{AtomicU8, Ordering};

/// The largest count, and the one from which a record is expected: two in a row bring it there.
const MAX: u8 = 3;
const EXPECTED: u8 = 2;

/// Whether the next claim is expected to find a record, as the last ones have.
#[derive(Debug, Default)]
pub(in crate::store::sql) struct Prediction(AtomicU8);

impl Prediction {
    pub(in crate::store::sql) fn expects_record(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= EXPECTED
    }

    /// Notes whether a claim has found a record. Of claims at the same time, one may not count.
    pub(in crate::store::sql) fn note(&self, found: bool) {
        let count = self.0.load(Ordering::Relaxed);
        let next = if found { (count + 1).min(MAX) } else { count.saturating_sub(1) };
        if next != count {
            self.0.store(next, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expects_a_record_after_two_in_turn_until_two_were_not_found() {
        let prediction = Prediction::default();
        let expected = [true, true, true, true, false, false, true, false, false].map(|found| {
            prediction.note(found);
            prediction.expects_record()
        });
        assert_eq!(expected, [false, true, true, true, true, false, true, false, false]);
    }
}
