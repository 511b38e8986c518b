//! The length of measurements, and the messages about their progress.

use std::time::{Duration, Instant};

/// The context of a run, which every part is given.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    started: Instant,
    /// Whether each measurement is to take an instant only.
    pub(crate) smoke: bool,
}

impl Context {
    pub(crate) fn new(smoke: bool) -> Self {
        Self { started: Instant::now(), smoke }
    }

    /// Writes to standard error what is measured next.
    #[expect(clippy::print_stderr, reason = "messages to the user, beside the report on standard output")]
    pub(crate) fn progress(&self, what: &str) {
        let seconds = self.elapsed().as_secs();
        eprintln!("[{:>2}:{:02}] {what}", seconds / 60, seconds % 60);
    }

    /// Returns the time since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the number of rounds: one in a smoke run.
    pub(crate) fn rounds(&self, rounds: usize) -> usize {
        if self.smoke { 1 } else { rounds }
    }

    /// Returns the length of one measurement: an instant in a smoke run.
    pub(crate) fn time(&self, time: Duration) -> Duration {
        if self.smoke { time.min(Duration::from_millis(20)) } else { time }
    }

    /// Returns a number of calls or rows: a small one in a smoke run.
    pub(crate) fn count(&self, count: usize) -> usize {
        if self.smoke { count.min(100) } else { count }
    }
}
