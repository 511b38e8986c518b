//! Log lines in memory, for assertions.

use std::{
    io,
    sync::{Arc, LazyLock, Mutex},
};

use tracing::{Dispatch, level_filters::LevelFilter, subscriber::DefaultGuard};
use tracing_subscriber::fmt::MakeWriter;

/// A second subscriber, which lives as long as the process. With only one, tracing caches for all threads whether the first thread that
/// reaches an event wants it, and a test in another thread would miss its lines.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| {
    Dispatch::new(tracing_subscriber::fmt().with_max_level(LevelFilter::ERROR).with_writer(io::sink).finish())
});

/// Log lines in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Collects the lines of this thread, from this level on, as long as the guard lives.
    pub fn collect(from: LevelFilter) -> (Self, DefaultGuard) {
        let lines = Self::default();
        LazyLock::force(&SECOND);
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_max_level(from).with_writer(lines.clone()).finish();
        (lines, tracing::subscriber::set_default(subscriber))
    }

    /// Takes all lines that were written until now.
    pub fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().expect("no panic"))).expect("text")
    }

    /// Counts a text in the lines.
    pub fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).matches(text).count()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
