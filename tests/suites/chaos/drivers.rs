//! The promises hold with each driver.

use crate::{
    harness::run,
    kept::{BOUNCER_FAULTS, all_promises_were_kept},
};

/// A run that has every fault.
const SHORT: [&str; 8] = ["--operations", "150", "--seed", "1", "--servers", "2", "--clients", "8"];

/// Carries out one run in each mode, side by side: they mostly wait.
async fn keeps_promises(driver: &str, flags: &[&str], faults: &[&str]) {
    let modes =
        ["transactional", "reserved"].map(|mode| [&SHORT[..], &["--driver", driver, "--mode", mode], flags].concat());
    let [transactional, reserved] = &modes;
    let (transactional, reserved) = tokio::join!(run(transactional), run(reserved));
    for ended in [transactional, reserved].into_iter().flatten() {
        all_promises_were_kept(&ended);
        assert_eq!(ended.number("steps that no call passed"), 0, "{}", ended.said());
        for fault in faults {
            assert!(ended.number(fault) > 0, "{}", ended.said());
        }
    }
}

#[tokio::test]
async fn keep_all_promises_on_sqlx_while_everything_fails() {
    keeps_promises("sqlx", &[], &[]).await;
}

#[tokio::test]
async fn keep_all_promises_on_sqlx_behind_pgbouncer_while_everything_fails() {
    keeps_promises("sqlx", &["--pgbouncer"], &BOUNCER_FAULTS).await;
}
