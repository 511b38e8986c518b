//! Pauses that double: between attempts, and between looks at something that takes time.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

/// Pauses of which each is twice as long as the one before, up to the longest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    first: Duration,
    longest: Duration,
    /// The number of pauses so far.
    past: u32,
}

impl Pauses {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, past: 0 }
    }

    /// Returns the next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let next = self.after(self.past);
        self.past = self.past.saturating_add(1);
        next
    }

    /// Returns the pause that comes after this many others.
    pub(crate) fn after(&self, others: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(others)).min(self.longest)
    }
}

/// Shortens a pause at random by up to a half, so that those that failed together do not try again together.
pub(crate) fn shortened(full: Duration) -> Duration {
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
    fn double_up_to_the_longest() {
        let mut pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(10));
        let taken = [(); 6].map(|()| pauses.next());
        assert_eq!(taken, [1, 2, 4, 8, 10, 10].map(Duration::from_secs));
        assert_eq!([0, 3, 4, u32::MAX].map(|others| pauses.after(others)), [1, 8, 10, 10].map(Duration::from_secs));
        let mut short = Pauses::new(Duration::from_secs(5), Duration::from_secs(2));
        assert_eq!([short.next(), short.next()], [Duration::from_secs(2); 2]);
    }

    #[test]
    fn are_shortened_at_random_by_up_to_a_half() {
        let full = Duration::from_secs(1);
        let shortened: Vec<_> = (0..100).map(|_| shortened(full)).collect();
        let (least, most) = (shortened.iter().min().expect("a hundred"), shortened.iter().max().expect("a hundred"));
        assert!(*least >= full / 2 && *most <= full, "{least:?} to {most:?}");
        assert!(*least < full.mul_f64(0.7) && *most > full.mul_f64(0.8), "at random: {least:?} to {most:?}");
    }
}
