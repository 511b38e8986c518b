//! The length of measurements, and the messages about their progress.

use std::time::{Duration, Instant};

/// The context of a run, which every part is given.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    started: Instant,
    part: Option<&'static str>,
    /// Whether each measurement is to take an instant only.
    pub(crate) smoke: bool,
}

impl Context {
    pub(crate) fn new(smoke: bool) -> Self {
        Self { started: Instant::now(), part: None, smoke }
    }

    /// Returns the context of one part, whose messages begin with its name.
    pub(crate) fn of(&self, part: &'static str) -> Self {
        Self { part: Some(part), ..self.clone() }
    }

    /// Writes to standard error what is measured next.
    #[expect(clippy::print_stderr, reason = "messages to the user, beside the report on standard output")]
    pub(crate) fn progress(&self, what: &str) {
        let seconds = self.elapsed().as_secs();
        let part = self.part.map(|part| format!("{part}: ")).unwrap_or_default();
        eprintln!("[{:>2}:{:02}] {part}{what}", seconds / 60, seconds % 60);
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
