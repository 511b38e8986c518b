//! The trace of a run: what happened, in order.

use std::{
    collections::hash_map::DefaultHasher,
    fmt,
    hash::{Hash as _, Hasher as _},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The trace of a run. It always has a digest, by which two runs are compared, and the lines only if they are asked for.
#[derive(Debug)]
pub struct Trace(Mutex<Told>);

#[derive(Debug)]
struct Told {
    digest: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(super) fn new(lines: bool) -> Self {
        // Its keys are always the same.
        Self(Mutex::new(Told { digest: DefaultHasher::new(), lines: lines.then(Vec::new) }))
    }

    pub(super) fn tell(&self, time: Duration, who: &str, event: fmt::Arguments<'_>) {
        let line = format!("{:>12.6}  {who:<10} {event}", time.as_secs_f64());
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.hash(&mut told.digest);
        if let Some(lines) = &mut told.lines {
            lines.push(line);
        }
    }

    /// Returns a number that is equal for equal traces.
    pub fn digest(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).digest.finish()
    }

    /// Returns the lines, if they were kept.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lines.clone().unwrap_or_default()
    }
}
