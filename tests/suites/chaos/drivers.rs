//! The promises hold with each driver.

use crate::{
    bouncer::BOUNCER_FAULTS,
    harness::run,
    kept::{SHARED, SHORT, all_promises_were_kept},
};

/// Carries out one run in each of the modes, one after the other.
async fn keeps_promises(driver: &str, modes: &[&str], flags: &[&str], faults: &[&str]) {
    for mode in modes {
        let flags = [&SHORT[..], &["--driver", driver, "--mode", mode], flags].concat();
        let Some(ended) = run(&flags).await else { return };
        all_promises_were_kept(&ended);
        assert!(ended.number(SHARED) > 0, "{}", ended.said());
        assert_eq!(ended.number("steps that no call passed"), 0, "{}", ended.said());
        for fault in faults {
            assert!(ended.number(fault) > 0, "{}", ended.said());
        }
    }
}

#[tokio::test]
async fn keep_all_promises_on_diesel_while_everything_fails() {
    keeps_promises("diesel", &["transactional", "reserved"], &[], &[]).await;
}

#[tokio::test]
async fn keep_all_promises_on_sea_orm_while_everything_fails() {
    keeps_promises("sea-orm", &["transactional", "reserved"], &[], &[]).await;
}

#[tokio::test]
async fn keep_all_promises_on_sqlx_while_everything_fails() {
    keeps_promises("sqlx", &["transactional", "reserved"], &[], &[]).await;
}

#[tokio::test]
async fn keep_all_promises_on_sqlx_behind_pgbouncer_while_everything_fails() {
    keeps_promises("sqlx", &["transactional", "reserved"], &["--topology", "pgbouncer"], &BOUNCER_FAULTS).await;
}
