//! The trace of a run: what happened, in order.

use std::{
    collections::hash_map::DefaultHasher,
    fmt,
    hash::{Hash as _, Hasher as _},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The part of a trace that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing: no line is written.
    Nothing,
    /// A digest, by which two runs are compared.
    Digest,
    /// All lines.
    Lines,
}

/// The trace of a run.
#[derive(Debug)]
pub struct Trace {
    keeps: Keeps,
    told: Mutex<Told>,
}

#[derive(Debug)]
struct Told {
    digest: DefaultHasher,
    lines: Vec<String>,
}

impl Trace {
    pub(super) fn new(keeps: Keeps) -> Self {
        // The keys of the digest are always the same.
        Self { keeps, told: Mutex::new(Told { digest: DefaultHasher::new(), lines: Vec::new() }) }
    }

    pub(super) fn tell(&self, time: Duration, who: fmt::Arguments<'_>, event: fmt::Arguments<'_>) {
        if self.keeps == Keeps::Nothing {
            return;
        }
        let line = format!("{:>12.6}  {:<10} {event}", time.as_secs_f64(), who.to_string());
        let mut told = self.lock();
        match self.keeps {
            Keeps::Lines => told.lines.push(line),
            _ => line.hash(&mut told.digest),
        }
    }

    /// Returns a number that is equal for equal traces, if a digest was kept.
    pub fn digest(&self) -> u64 {
        self.lock().digest.finish()
    }

    /// Returns the lines, if they were kept.
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
