//! The pauses between a client's attempts.

use std::time::Duration;

use rand::{Rng, RngExt as _};

use crate::outcome::Outcome;

/// The first pause, before jitter.
const FIRST: Duration = Duration::from_millis(20);

/// The longest pause, even if the server asks for more, so that a run does not take too long.
const LONGEST: Duration = Duration::from_millis(300);

/// The pauses between the attempts of an operation. They grow, have jitter, and follow the delay that the server asks
/// for.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { next: FIRST }
    }

    /// The pause after this outcome.
    pub(super) fn after(&mut self, outcome: &Outcome, rng: &mut impl Rng) -> Duration {
        let asked = match outcome {
            Outcome::Failed(failure) => failure.retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        let wait = self.next.max(asked).min(LONGEST);
        self.next = (self.next * 2).min(LONGEST);
        wait.mul_f64(rng.random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Seed, Subject};

    #[test]
    fn grows_up_to_a_limit() {
        let mut rng = Seed(1).rng(Subject::Client(0));
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..20).map(|_| backoff.after(&Outcome::TimedOut, &mut rng)).collect();
        assert!(waits[0] <= FIRST);
        assert!(waits.iter().all(|wait| *wait <= LONGEST));
        assert!(waits[19] >= LONGEST / 2);
    }
}
