//! The warnings that would be repeated for each entry.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The time for which a warning is not repeated.
const PAUSE: Duration = Duration::from_secs(60);

/// When each warning was logged last, by procedure and reason.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    logged: Mutex<HashMap<(String, String), Instant>>,
}

impl Notices {
    /// Returns whether a warning is to be logged now, and notes it.
    pub(crate) fn is_due(&self, procedure: &str, reason: &str) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let warning = (procedure.to_owned(), reason.to_owned());
        let is_due = logged.get(&warning).is_none_or(|at| at.elapsed() >= PAUSE);
        if is_due {
            logged.insert(warning, Instant::now());
        }
        is_due
    }
}
