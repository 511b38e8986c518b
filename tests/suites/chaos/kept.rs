//! The verdict of a run in which every promise was kept.

use crate::harness::Ended;

/// A run that has every fault, and is short even on a busy machine.
pub(crate) const SHORT: [&str; 8] = run_of("150");

/// The rows of the table that must be 0.
const PROMISES: [&str; 8] = [
    "duplicates",
    "runs beside or after the one",
    "lost acknowledged responses",
    "wrong replays",
    "executed though refused",
    "unprotected runs without need",
    "stuck keys",
    "unexpected answers and ends",
];

/// Faults that happen in every run, whatever else there is.
const FAULTS: [&str; 3] =
    ["server killed at before_settle", "PostgreSQL killed and restarted", "database connections of a server silent"];

/// The flags of a run of so many operations.
pub(crate) const fn run_of(operations: &str) -> [&str; 8] {
    ["--operations", operations, "--seed", "1", "--servers", "2", "--clients", "8"]
}

/// Asserts that all promises were kept, and that the faults that are in every run happened.
#[track_caller]
pub(crate) fn all_promises_were_kept(ended: &Ended) {
    promises_were_kept(ended);
    for fault in FAULTS {
        assert!(ended.number(fault) > 0, "{}", ended.said());
    }
    assert!(ended.number("of these, replays") > 50, "{}", ended.said());
}

/// Asserts that all promises were kept, whatever faults there were.
#[track_caller]
pub(crate) fn promises_were_kept(ended: &Ended) {
    for promise in PROMISES {
        assert_eq!(ended.broken(promise), 0, "{}", ended.said());
    }
    assert!(ended.number("runs of handlers") > 0, "{}", ended.said());
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    assert!(ended.directory.stories().is_empty());
    assert!(ended.directory.left().is_empty(), "{:?}", ended.directory.left());
}
