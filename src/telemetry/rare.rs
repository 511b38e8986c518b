//! Log lines that are written at most once a minute.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The shortest time between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// A log line that many calls may cause. It is written for the first call, and then at most once a minute for all since. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare(Arc<Mutex<LineState>>);

#[derive(Debug, Default)]
struct LineState {
    last: Option<Instant>,
    /// The calls since then, for which it is not written yet.
    calls: u64,
}

impl Rare {
    /// Counts a call. Returns the number of calls to write the line for; `None` if it is not to be written now.
    pub(super) fn calls(&self, now: Instant) -> Option<u64> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.calls += 1;
        if written.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            return None;
        }
        written.last = Some(now);
        Some(std::mem::take(&mut written.calls))
    }
}

impl PartialEq for Rare {
    /// Returns `true`, so that two owners are equal whatever they have written.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_at_once_and_then_once_a_minute_for_all_since() {
        let (rare, begun) = (Rare::default(), Instant::now());
        let at = |seconds| rare.calls(begun + Duration::from_secs(seconds));
        assert_eq!([0, 1, 30, 59].map(at), [Some(1), None, None, None]);
        assert_eq!([60, 119, 120].map(at), [Some(4), None, Some(2)]);
        assert_eq!(at(1_000), Some(1));
    }
}
