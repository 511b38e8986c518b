//! Servers that proceed without their store: the promises hold, and the harness notices a call that ran unprotected without need.

use crate::{
    harness::run,
    kept::{SHORT, all_promises_were_kept, promises_were_kept, run_of},
};

const PROCEED: [&str; 4] = ["--mode", "reserved", "--on-store-unavailable", "proceed"];

#[tokio::test]
async fn are_kept_in_reserved_mode_that_proceeds_without_its_store_while_everything_fails() {
    let Some(ended) = run(&[&SHORT[..], &PROCEED].concat()).await else { return };
    all_promises_were_kept(&ended);
}

/// With every fault, the database may be away only while no server is up, and no call runs unprotected. This run has one fault.
#[tokio::test]
async fn are_kept_by_calls_that_run_unprotected_while_their_database_is_away() {
    let flags = [&run_of("1000")[..], &PROCEED, &["--faults", "database-kill"]].concat();
    let Some(ended) = run(&flags).await else { return };
    promises_were_kept(&ended);
    assert!(ended.number("**unprotected runs**") > 0, "{}", ended.said());
}

#[tokio::test]
async fn are_found_broken_if_a_call_runs_unprotected_beside_a_healthy_store() {
    let flags = ["--mode", "reserved", "--faults", "none", "--sabotage", "unprotect"];
    for policy in ["reject", "proceed"] {
        let flags = [&SHORT[..], &flags, &["--on-store-unavailable", policy]].concat();
        let Some(ended) = run(&flags).await else { return };
        assert_eq!(ended.code, Some(1), "{}", ended.said());
        assert_eq!(ended.broken("unprotected runs without need"), 1, "{policy}: {}", ended.said());
        assert!(ended.said().contains("RUNS UNPROTECTED"), "{}", ended.said());
    }
}
