//! The promises hold in further settings.

use crate::{
    bouncer::BOUNCER_FAULTS,
    harness::run,
    kept::{SHARED, SHORT, all_promises_were_kept},
};

#[tokio::test]
async fn are_kept_behind_pgbouncer_while_everything_fails() {
    let transactional = [&SHORT[..], &["--mode", "transactional", "--pgbouncer"]].concat();
    let proceed = ["--mode", "reserved", "--pgbouncer", "--on-store-unavailable", "proceed"];
    let reserved = [&SHORT[..], &proceed].concat();
    let (transactional, reserved) = tokio::join!(run(&transactional), run(&reserved));
    for ended in [transactional, reserved] {
        let Some(ended) = ended else { return };
        all_promises_were_kept(&ended);
        assert!(ended.number(SHARED) > 0, "{}", ended.said());
        for fault in BOUNCER_FAULTS {
            assert!(ended.number(fault) > 0, "{}", ended.said());
        }
    }
}

#[tokio::test]
async fn are_kept_with_serializable_transactions_while_everything_fails() {
    let Some(ended) = run(&[&SHORT[..], &["--mode", "transactional", "--serializable"]].concat()).await else { return };
    all_promises_were_kept(&ended);
}
