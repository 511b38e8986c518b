//! The result of the audit.

use std::collections::{BTreeMap, HashSet};

use clap::ValueEnum as _;

use super::Promise;

/// The result of the audit.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Violations that are excused, because a failover may have lost records: with asynchronous replication, or on Redis.
    pub(crate) losses: Vec<Violation>,
    /// The number of operations that were acknowledged before an unknown outcome, and refused since. `refuse`
    /// allows this.
    pub(crate) refused_after_acknowledgement: usize,
    /// The number of unprotected runs.
    pub(crate) unprotected: usize,
    /// The number of unprotected runs that the policy allows.
    pub(crate) unprotected_with_need: usize,
    /// The number of rows beyond the first, of operations that ran unprotected as often.
    pub(crate) unprotected_duplicates: usize,
    /// The number of operations whose outcome the service reports as unknown in the end.
    pub(crate) unknown: usize,
    pub(crate) violations: Vec<Violation>,
}

impl Verdict {
    /// The number of operations for which each promise was broken. Violations without an operation count one by one.
    pub(crate) fn counts(&self) -> BTreeMap<Promise, usize> {
        counts(&self.violations)
    }

    /// The number of operations for which failovers have lost what each promise rests upon.
    pub(crate) fn lost(&self) -> BTreeMap<Promise, usize> {
        counts(&self.losses)
    }
}

fn counts(violations: &[Violation]) -> BTreeMap<Promise, usize> {
    let mut counts: BTreeMap<_, _> = Promise::value_variants().iter().map(|promise| (*promise, 0)).collect();
    let mut seen = HashSet::new();
    for violation in violations {
        let known = violation.operation.is_some_and(|operation| !seen.insert((operation, violation.promise)));
        *counts.entry(violation.promise).or_default() += usize::from(!known);
    }
    counts
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The operation; `None` if it is not known.
    pub(crate) operation: Option<u32>,
    pub(crate) promise: Promise,
    /// The finding, as a sentence.
    pub(crate) what: String,
}
