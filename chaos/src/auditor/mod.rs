//! Says whether the promises were kept, from nothing but the rows that there are in the end and what clients were told.
//! It knows neither keys, leases nor tokens.
//!
//! | promise | broken where |
//! |---|---|
//! | nothing happens twice | an operation has more than one row, and its policy does not allow a rerun |
//! | what is refused does not happen | a request that used the key of another operation has a row |
//! | what was acknowledged stays | an acknowledged id has no row, or a later retry does not get it back as a replay |
//! | a replay is of one's own call | a response has the id of another operation, or not the one of the first response |
//! | no key is stuck | the last retry of an operation, with all faults over, gets no answer for good |
//! | nothing else | an answer that no client of this service can expect |

mod judge;
mod rows;
mod rules;
mod tally;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use crate::{journal::Entries, operation::Operation};

pub(crate) use self::{judge::judge, rows::Rows, rules::Rules, tally::Tally};

/// What the auditor looks at.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) entries: &'a Entries,
    pub(crate) operations: &'a [Operation],
    pub(crate) rows: &'a Rows,
    pub(crate) rules: Rules,
}

/// What it found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Operations that were acknowledged before an unknown outcome, and refused ever since: allowed to `refuse`.
    pub(crate) refused_after_acknowledgement: usize,
    /// Rows beyond the first, of operations whose policy allows that.
    pub(crate) reruns: usize,
    /// Operations whose outcome the service does not know in the end, and says so.
    pub(crate) unknown: usize,
    pub(crate) violations: Vec<Violation>,
}

impl Verdict {
    /// For how many operations each promise was broken; what belongs to no operation counts one by one.
    pub(crate) fn counts(&self) -> BTreeMap<Promise, usize> {
        let mut counts: BTreeMap<_, _> = Promise::ALL.into_iter().map(|promise| (promise, 0)).collect();
        let mut seen = HashSet::new();
        for violation in &self.violations {
            let known = violation.operation.is_some_and(|operation| !seen.insert((operation, violation.promise)));
            *counts.entry(violation.promise).or_default() += usize::from(!known);
        }
        counts
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Whose; `None` where it cannot be told.
    pub(crate) operation: Option<u32>,
    pub(crate) promise: Promise,
    /// What was found.
    pub(crate) what: String,
}

/// What the service promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Promise {
    NothingTwice,
    NothingLost,
    NoWrongReplay,
    NothingThoughRefused,
    NothingStuck,
    NothingElse,
}

impl Promise {
    pub(crate) const ALL: [Self; 6] = [
        Self::NothingTwice,
        Self::NothingLost,
        Self::NoWrongReplay,
        Self::NothingThoughRefused,
        Self::NothingStuck,
        Self::NothingElse,
    ];
}

/// What it is called where it was broken.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingTwice => "duplicates",
            Self::NothingLost => "lost acknowledged responses",
            Self::NoWrongReplay => "wrong replays",
            Self::NothingThoughRefused => "executed though refused",
            Self::NothingStuck => "stuck keys",
            Self::NothingElse => "unexpected answers and ends",
        })
    }
}

#[cfg(test)]
mod tests;
