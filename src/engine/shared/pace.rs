//! The pace of questions to the store for the end of a call that another process runs.

use std::time::Duration;

use tokio::time::Instant;

use crate::pause::shortened;

/// The shortest of the pauses.
const SHORTEST: Duration = Duration::from_millis(50);

/// A pause is the time since the first question, divided by this.
const PART: u32 = 5;

/// Pauses of a fifth of the time since the first question, from 50 milliseconds up to `longest`: the end of a call is noticed
/// late by at most a fifth of the time that the call took. Each pause is shortened at random by up to a half, so that processes
/// that wait for the same call do not ask together.
#[derive(Debug)]
pub(crate) struct Pace {
    first: Instant,
    longest: Duration,
}

impl Pace {
    /// The pace from now on.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { first: Instant::now(), longest }
    }

    /// The time of the next question.
    pub(crate) fn next(&self) -> Instant {
        let pause = (self.first.elapsed() / PART).max(SHORTEST).min(self.longest);
        Instant::now() + shortened(pause)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep_until};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_for_at_most_a_fifth_of_the_time_since_the_first_question() {
        let pace = Pace::new(Duration::from_secs(1));
        for (after, least, most) in
            [(0, 25, 50), (200, 25, 50), (1000, 100, 200), (4000, 400, 800), (60_000, 500, 1000)]
        {
            advance(Duration::from_millis(after).saturating_sub(pace.first.elapsed())).await;
            let pauses: Vec<_> = (0..100).map(|_| (pace.next() - Instant::now()).as_millis()).collect();
            let (shortest, longest) = (pauses.iter().min().expect("pauses"), pauses.iter().max().expect("pauses"));
            assert!(*shortest >= least && *longest <= most, "after {after}: {shortest} to {longest}");
            assert!(longest - shortest > (most - least) / 2, "at random, after {after}: {shortest} to {longest}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn asks_a_bounded_number_of_times() {
        let (pace, mut questions) = (Pace::new(Duration::from_secs(1)), 0);
        while pace.first.elapsed() < Duration::from_secs(10) {
            sleep_until(pace.next()).await;
            questions += 1;
        }
        assert!((20..60).contains(&questions), "{questions}");
    }
}
