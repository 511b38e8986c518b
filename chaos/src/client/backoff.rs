use std::time::Duration;

use rand::{Rng, RngExt as _};

use crate::outcome::Outcome;

/// The first wait, before jitter.
const FIRST: Duration = Duration::from_millis(20);

/// No wait is longer, whoever asks for it: there is much to do.
const LONGEST: Duration = Duration::from_millis(300);

/// How long a client waits between its attempts: longer each time, as long as it is asked to, never the same.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { next: FIRST }
    }

    /// How long to wait after this.
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
    fn waits_grow_and_have_an_end() {
        let mut rng = Seed(1).rng(Subject::Client(0));
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..20).map(|_| backoff.after(&Outcome::TimedOut, &mut rng)).collect();
        assert!(waits[0] <= FIRST);
        assert!(waits.iter().all(|wait| *wait <= LONGEST));
        assert!(waits[19] >= LONGEST / 2);
    }
}
