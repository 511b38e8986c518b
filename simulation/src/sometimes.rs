//! Rare things that have to happen somewhere in many runs: what never happens is not tested.

use std::collections::BTreeMap;

/// How often each thing has happened.
pub type Counts = BTreeMap<String, u64>;

/// All that has to happen in a million calls: the answers of clients, the answers of statements, the words of reconcilers and of journals, and the ends of handlers.
pub const EXPECTED: &[&str] = &[
    "abandon: done",
    "allow: done",
    "answer: done",
    "answer: failed, FailedPrecondition",
    "answer: failed, Internal",
    "answer: failed, Unavailable",
    "answer: nothing",
    "answer: refused, Conflict",
    "answer: refused, InProgress",
    "answer: refused, KeyExpired",
    "answer: refused, KeyReused",
    "answer: refused, NoUser",
    "answer: refused, NotCommitted",
    "answer: refused, NotStored",
    "answer: refused, OutcomeUnknown",
    "answer: refused, Overloaded",
    "answer: refused, RequestTimeout",
    "answer: refused, ShuttingDown",
    "answer: refused, StoreFailed",
    "answer: refused, StoreUnavailable",
    "answer: refused, TooManyRecords",
    "answer: replayed",
    "answer: unresolved",
    "begin: acquired",
    "begin: completed",
    "begin: failed",
    "begin: late",
    "begin: reserved",
    "begin: running",
    "begin: taken_over",
    "begin: unknown",
    "claim: abandoned",
    "claim: acquired",
    "claim: completed",
    "claim: failed",
    "claim: late",
    "claim: not_stored",
    "claim: reserved",
    "claim: taken_over",
    "claim: unknown",
    "commit: done",
    "committed: done",
    "complete: already_completed",
    "complete: completed",
    "complete: fenced",
    "crash: loses a reservation",
    "extend: done",
    "journal: answered",
    "journal: expired",
    "journal: failed",
    "look: completed",
    "look: reserved",
    "reconciler: completed",
    "reconciler: not executed",
    "reconciler: unknown",
    "release: done",
    "run: loses its lease",
    "run: writes to the server of the records",
    "sweep: done",
    "write_many: of 64",
];

/// Returns what was expected and has not happened.
pub fn missing(counts: &Counts) -> Vec<&'static str> {
    EXPECTED.iter().copied().filter(|expected| !counts.contains_key(*expected)).collect()
}
