//! Calls with one key that were made at once, and assertions on how they ended.

use std::{collections::BTreeMap, fmt};

use super::Called;
use crate::rejection::Reason;

/// Calls of a [`Harness`](super::Harness) with one key that were made at once, and have ended.
#[derive(Debug)]
#[must_use = "assert how the calls ended"]
pub struct AtOnce<R>(Vec<Called<R>>);

impl<R> AtOnce<R> {
    pub(super) fn new(calls: Vec<Called<R>>) -> Self {
        Self(calls)
    }

    /// Asserts that exactly one call ran its handler and succeeded, as [`Called::executed_once`] does, and that each other call got a
    /// replay, or was refused because a call was in progress. Returns the call that ran.
    ///
    /// # Panics
    ///
    /// No call did, or several did, or a call ended in any other way.
    #[track_caller]
    pub fn executed_once(self) -> Called<R> {
        let is_duplicate =
            |call: &Called<R>| call.is_replayed() || call.is_rejected_with(Reason::InProgress) && call.runs() == 0;
        let executed = self.0.iter().filter(|call| call.is_executed_once()).count();
        let duplicates = self.0.iter().filter(|call| is_duplicate(call)).count();
        let holds = executed == 1 && duplicates == self.0.len() - 1;
        assert!(
            holds,
            "expected one of {} calls to run its handler and succeed, and the others to be replays or in progress; but{self}",
            self.0.len()
        );
        self.0.into_iter().find(Called::is_executed_once).expect("there is one")
    }

    /// Returns the calls, in no particular order.
    pub fn into_calls(self) -> Vec<Called<R>> {
        self.0
    }
}

/// Lists the ways in which the calls ended, each with its number of calls.
impl<R> fmt::Display for AtOnce<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut calls = BTreeMap::<String, usize>::new();
        for call in &self.0 {
            *calls.entry(call.to_string()).or_default() += 1;
        }
        calls.iter().try_for_each(|(call, number)| write!(f, "\n{number}: {call}"))
    }
}
