//! Messages about the progress of a measurement.

use std::time::Instant;

/// Says on standard error what is done next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    started: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }

    #[expect(clippy::print_stderr, reason = "messages to the user, beside the report on standard output")]
    pub(crate) fn say(&self, what: &str) {
        let seconds = self.started.elapsed().as_secs();
        eprintln!("[{:>3}:{:02}] {what}", seconds / 60, seconds % 60);
    }
}
