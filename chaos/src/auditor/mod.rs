//! Decides whether the promises were kept. The only evidence is the rows in the database at the end, the answers that clients got, and when
//! handlers ran, as servers report it: the auditor knows nothing of leases or tokens.
//!
//! | promise | broken if |
//! |---|---|
//! | nothing happens twice | an operation has more than one row, not counting one for each of its unprotected runs |
//! | a refused request is not executed | a request that used the key of another operation has a row |
//! | one handler runs, and once | the handler of a key begins while another runs whose server nothing has happened to, or after a response |
//! | an acknowledged effect stays | an acknowledged id has no row, or a later retry does not get it as a replay |
//! | a replay repeats the call's own response | a response has another operation's id, or not the first response's id |
//! | nothing runs unprotected without need | a call with a key ran unprotected, and its policy is not `proceed`, or the database could be asked |
//! | no key is stuck | the last retry of an operation, after all faults, gets no final answer |
//! | nothing unexpected | an answer is one that no client of this service can expect; a server ends by itself |
//!
//! With asynchronous replication, a failover may lose acknowledged records and effects; with records on Redis, records alone. Violations of
//! all promises but the last three are then counted apart. A lost effect still breaks a promise if the records are on Redis.

mod judge;
mod rows;
mod rules;
mod runs;
mod tally;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use clap::ValueEnum;

use crate::{journal::Entries, named::name, operation::Operation};

pub(crate) use self::{
    judge::judge,
    rows::Rows,
    rules::{Losses, Rules},
    tally::Tally,
};

/// The evidence that the auditor judges.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) entries: &'a Entries,
    pub(crate) operations: &'a [Operation],
    pub(crate) rows: &'a Rows,
    pub(crate) rules: Rules,
}

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

/// A promise of the service. Its name is that of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Promise {
    #[value(name = "duplicates")]
    NothingTwice,
    #[value(name = "runs beside or after the one")]
    NothingBeside,
    #[value(name = "lost acknowledged responses")]
    NothingLost,
    #[value(name = "wrong replays")]
    NoWrongReplay,
    #[value(name = "executed though refused")]
    NothingThoughRefused,
    #[value(name = "unprotected runs without need")]
    NothingUnprotected,
    #[value(name = "stuck keys")]
    NothingStuck,
    #[value(name = "unexpected answers and ends")]
    NothingElse,
}

impl Promise {
    /// Whether it can be kept only with the records and effects that the database has acknowledged.
    pub(crate) fn rests_upon_records(self) -> bool {
        matches!(
            self,
            Self::NothingTwice
                | Self::NothingBeside
                | Self::NothingLost
                | Self::NoWrongReplay
                | Self::NothingThoughRefused
        )
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(*self))
    }
}

#[cfg(test)]
mod tests;
