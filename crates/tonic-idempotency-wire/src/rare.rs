//! Log lines that are written at most once a minute.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The shortest time between two lines about the same.
const PAUSE: Duration = Duration::from_secs(60);

/// Log lines that many calls may cause. Each is written for the first call, and then at most once a minute for all since. Two texts tell the
/// lines apart, such as what happened and its cause: they are few.
#[derive(Debug, Default)]
pub struct Rare(Mutex<HashMap<[Cow<'static, str>; 2], LineState>>);

#[derive(Debug, Default)]
struct LineState {
    last: Option<Instant>,
    /// The calls since then, for which the line is not written yet.
    calls: u64,
}

impl Rare {
    /// Counts a call. Returns the number of calls to write the line for; `None` if it is not to be written now.
    pub fn calls(&self, line: [Cow<'static, str>; 2], now: Instant) -> Option<u64> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(line).or_default();
        line.calls += 1;
        if line.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            return None;
        }
        line.last = Some(now);
        Some(std::mem::take(&mut line.calls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_written_at_once_and_then_once_a_minute_for_all_since() {
        let (rare, begun) = (Rare::default(), Instant::now());
        let at = |seconds| rare.calls(["refused".into(), "overloaded".into()], begun + Duration::from_secs(seconds));
        assert_eq!([0, 1, 30, 59].map(at), [Some(1), None, None, None]);
        assert_eq!([60, 119, 120].map(at), [Some(4), None, Some(2)]);
        assert_eq!(at(1_000), Some(1));
    }

    #[test]
    fn do_not_hide_each_other() {
        let (rare, now) = (Rare::default(), Instant::now());
        for [line, cause] in [["refused", "overloaded"], ["refused", "unreachable"], ["not recorded", "overloaded"]] {
            let line = || [line.into(), cause.into()];
            assert_eq!([rare.calls(line(), now), rare.calls(line(), now)], [Some(1), None]);
        }
    }
}
