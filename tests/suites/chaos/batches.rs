//! The promises hold with and without shared statements, and the harness sees whether statements are shared.

use crate::{
    harness::run,
    kept::{SHARED, SHORT, all_promises_were_kept},
};

/// Troubles of statements that several calls share. A row is locked only where there are reservations.
const TROUBLES: [&str; 4] = [
    "connection cut after a shared statement",
    "connection cut before a shared statement",
    "row of one call among many refused",
    "row of a shared statement locked",
];

#[tokio::test]
async fn with_calls_that_share_statements_keep_all_promises_while_these_fail() {
    for (mode, troubles) in [("reserved", &TROUBLES[..]), ("transactional", &TROUBLES[..3])] {
        let Some(ended) =
            run(&[&SHORT[..], &["--mode", mode, "--faults", "batch,server-kill,connection-cut"]].concat()).await
        else {
            return;
        };
        assert_eq!(ended.code, Some(0), "{}", ended.said());
        assert!(ended.number(SHARED) > 100, "{}", ended.said());
        for trouble in troubles {
            assert!(ended.number(trouble) > 0, "{trouble}: {}", ended.said());
        }
    }
}

#[tokio::test]
async fn without_calls_that_share_statements_keep_all_promises_while_everything_fails() {
    let Some(ended) = run(&[&SHORT[..], &["--mode", "reserved", "--max-batch", "1"]].concat()).await else { return };
    all_promises_were_kept(&ended);
    assert_eq!(ended.number(SHARED), 0, "{}", ended.said());
}
