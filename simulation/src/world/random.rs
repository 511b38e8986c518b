//! A stream of random numbers.

use std::{ops::RangeInclusive, time::Duration};

/// A stream of random numbers that depends only on a seed and on the name of the stream.
#[derive(Clone, Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// Makes the stream that has this name under this seed.
    pub fn new(seed: u64, of: &str) -> Self {
        let name = of
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(fastrand::Rng::with_seed(seed ^ name.rotate_left(32)))
    }

    /// Returns another stream, which is independent of this one from then on.
    pub fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// The generator itself, for code that is not of the simulation.
    pub fn generator(&mut self) -> &mut fastrand::Rng {
        &mut self.0
    }

    /// Returns true once in `of` times.
    pub fn once_in(&mut self, of: u32) -> bool {
        of > 0 && self.0.u32(..of) == 0
    }

    /// Returns true with this chance, between 0 and 1.
    pub fn chance(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.0.f64() < chance
    }

    /// Returns a number from a range.
    pub fn number(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.u64(range)
    }

    /// Returns a duration from a range. All orders of magnitude are equally frequent.
    pub fn duration(&mut self, range: RangeInclusive<Duration>) -> Duration {
        let [least, most] = [range.start(), range.end()].map(|end| end.as_secs_f64().max(1e-6));
        Duration::from_secs_f64(self.magnitude(least..=most))
    }

    /// Returns a number from a range of positive numbers. All orders of magnitude are equally frequent.
    pub fn magnitude(&mut self, range: RangeInclusive<f64>) -> f64 {
        range.start() * (range.end() / range.start()).powf(self.0.f64())
    }

    /// Returns one of several.
    ///
    /// # Panics
    ///
    /// `several` is empty.
    pub fn one_of<'a, T>(&mut self, several: &'a [T]) -> &'a T {
        self.0.choice(several).expect("at least one")
    }

    /// Returns 16 random bytes.
    pub fn bytes(&mut self) -> [u8; 16] {
        self.0.u128(..).to_be_bytes()
    }
}
