//! Three servers under Patroni, whose primary is lost again and again.

use crate::{
    harness::{Ended, run},
    kept::{SHORT, promises_were_kept},
};

const PATRONI: [&str; 4] = ["--topology", "patroni", "--faults", "failover,server-kill,commit-cut,connection-cut"];

const FAILOVERS: [&str; 5] = [
    "primary cut off, and a standby promoted",
    "primary killed while its standbys lagged, and one promoted",
    "primary killed, and a standby promoted",
    "primary not fenced, and a standby promoted",
    "switchover to a standby",
];

async fn run_with(flags: &[&str]) -> Option<Ended> {
    run(&[&SHORT[..], &PATRONI, flags].concat()).await
}

#[track_caller]
fn primaries_were_lost(ended: &Ended) {
    for failover in FAILOVERS {
        assert!(ended.number(failover) > 0, "{failover}: {}", ended.said());
    }
    assert_eq!(ended.number("**unprotected runs**"), 0, "{}", ended.said());
}

#[tokio::test]
async fn promises_are_kept_in_transactional_mode_behind_haproxy() {
    let Some(ended) = run_with(&["--mode", "transactional"]).await else { return };
    promises_were_kept(&ended);
    primaries_were_lost(&ended);
}

#[tokio::test]
async fn promises_are_kept_in_reserved_mode_with_several_hosts() {
    let Some(ended) = run_with(&["--mode", "reserved", "--front", "hosts"]).await else { return };
    promises_were_kept(&ended);
    primaries_were_lost(&ended);
}

#[tokio::test]
async fn what_failovers_lose_with_asynchronous_replication_is_counted_and_breaks_no_other_promise() {
    let Some(ended) = run_with(&["--mode", "transactional", "--replication", "asynchronous"]).await else { return };
    promises_were_kept(&ended);
    primaries_were_lost(&ended);
    // Of a primary whose standbys lagged.
    let lost = ended.number("**lost acknowledged responses**, after failovers that lost records");
    assert!(lost > 0, "{}", ended.said());
}
