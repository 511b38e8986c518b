use std::time::{Duration, Instant};

/// What every part is given.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    started: Instant,
    part: Option<&'static str>,
    /// Each measurement for an instant only.
    pub(crate) smoke: bool,
}

impl Context {
    pub(crate) fn new(smoke: bool) -> Self {
        Self { started: Instant::now(), part: None, smoke }
    }

    /// For one part, whose progress is told from that of others.
    pub(crate) fn of(&self, part: &'static str) -> Self {
        Self { part: Some(part), ..self.clone() }
    }

    /// Says on standard error what is measured next.
    #[expect(clippy::print_stderr, reason = "progress is for whoever waits")]
    pub(crate) fn progress(&self, what: &str) {
        let seconds = self.elapsed().as_secs();
        let part = self.part.map(|part| format!("{part}: ")).unwrap_or_default();
        eprintln!("[{:>2}:{:02}] {part}{what}", seconds / 60, seconds % 60);
    }

    /// Since everything began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How often something is measured, in turn with what it is held against.
    pub(crate) fn rounds(&self, rounds: usize) -> usize {
        if self.smoke { 1 } else { rounds }
    }

    /// How long one measurement takes.
    pub(crate) fn time(&self, time: Duration) -> Duration {
        if self.smoke { time.min(Duration::from_millis(20)) } else { time }
    }

    /// How much of something there is to be.
    pub(crate) fn count(&self, count: usize) -> usize {
        if self.smoke { count.min(100) } else { count }
    }
}
