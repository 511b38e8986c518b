//! The promises hold behind PgBouncer.

use crate::{
    harness::run,
    kept::{SHORT, all_promises_were_kept},
};

/// Faults that happen behind PgBouncer.
const FAULTS: [&str; 5] = [
    "connection of PgBouncer cut after a COMMIT",
    "connection of PgBouncer cut before a COMMIT",
    "all connections of PgBouncer cut",
    "connections of PgBouncer silent",
    "sessions of PgBouncer terminated",
];

#[tokio::test]
async fn are_kept_behind_pgbouncer_while_everything_fails() {
    let transactional = [&SHORT[..], &["--mode", "transactional", "--topology", "pgbouncer"]].concat();
    let proceed = ["--mode", "reserved", "--topology", "pgbouncer", "--on-store-unavailable", "proceed"];
    let reserved = [&SHORT[..], &proceed].concat();
    let (transactional, reserved) = tokio::join!(run(&transactional), run(&reserved));
    for ended in [transactional, reserved] {
        let Some(ended) = ended else { return };
        all_promises_were_kept(&ended);
        for fault in FAULTS {
            assert!(ended.number(fault) > 0, "{}", ended.said());
        }
    }
}
