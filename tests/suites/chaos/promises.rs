//! The promises hold under faults, and the harness notices broken ones.

use crate::{
    harness::run,
    kept::{SHORT, all_promises_were_kept},
};

#[tokio::test]
async fn are_kept_in_transactional_mode_while_everything_fails() {
    let Some(ended) = run(&[&SHORT[..], &["--mode", "transactional"]].concat()).await else { return };
    all_promises_were_kept(&ended);
    assert_eq!(ended.number("steps that no call passed"), 0, "{}", ended.said());
    assert_eq!(ended.number("outcome still unknown at the last retry"), 0);
    assert_eq!(ended.number("**unprotected runs**"), 0);
}

#[tokio::test]
async fn are_kept_in_reserved_mode_while_everything_fails() {
    let Some(ended) = run(&[&SHORT[..], &["--mode", "reserved"]].concat()).await else { return };
    all_promises_were_kept(&ended);
    assert_eq!(ended.number("steps that no call passed"), 0, "{}", ended.said());
}

#[tokio::test]
async fn are_found_broken_after_sabotage() {
    let sabotage = ["--mode", "reserved", "--faults", "none", "--sabotage", "all"];
    let Some(ended) = run(&[&SHORT[..], &sabotage].concat()).await else { return };
    assert_eq!(ended.code, Some(1), "{}", ended.said());
    for (promise, broken) in [
        ("duplicates", 1),
        // The operation that was forgotten.
        ("runs beside or after the one", 1),
        // The operation that was forgotten, and the one whose row was deleted.
        ("lost acknowledged responses", 2),
        // The two operations whose responses were swapped.
        ("wrong replays", 2),
        ("executed though refused", 1),
        ("unprotected runs without need", 1),
        ("stuck keys", 1),
        ("unexpected answers and ends", 0),
    ] {
        assert_eq!(ended.broken(promise), broken, "{promise}: {}", ended.said());
    }
    assert_eq!(ended.directory.stories().len(), 1);
    let said = ended.said();
    for part in ["duplicates: it was executed 2 times", "(Final)", "key "] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
}
