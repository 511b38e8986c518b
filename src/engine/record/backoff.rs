//! Pauses between attempts.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

/// Pauses that double up to the longest one. Each is shortened at random by up to a half, so that processes that failed
/// together do not try again together.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first.min(longest), longest }
    }

    /// The next pause.
    pub(crate) fn pause(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.longest);
        shortened(full)
    }
}

/// Shortens a pause at random by up to a half.
pub(in crate::engine) fn shortened(full: Duration) -> Duration {
    full - full.mul_f64(random() / 2.0)
}

/// A random number from 0 up to 1.
fn random() -> f64 {
    // Each `RandomState` has keys of its own.
    let bits = RandomState::new().hash_one(()) >> 32;
    bits as f64 / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_pause_and_shortens_each_by_up_to_a_half() {
        let full = [1, 2, 4, 8, 10, 10].map(Duration::from_secs);
        let mut pauses: Vec<Vec<Duration>> = Vec::new();
        for _ in 0..100 {
            let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
            pauses.push(full.iter().map(|_| backoff.pause()).collect());
        }
        for (index, full) in full.into_iter().enumerate() {
            let (least, most) = (pauses.iter().map(|it| it[index]).min(), pauses.iter().map(|it| it[index]).max());
            let (least, most) = (least.expect("a hundred"), most.expect("a hundred"));
            assert!(least >= full / 2 && most <= full, "{least:?} to {most:?} of {full:?}");
            assert!(least < full.mul_f64(0.7) && most > full.mul_f64(0.8), "at random: {least:?} to {most:?}");
        }
    }
}
