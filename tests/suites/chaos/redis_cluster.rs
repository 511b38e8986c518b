//! Records on a Redis Cluster, whose primaries are lost again and again.

use crate::{
    harness::{Ended, run},
    kept::{SHORT, promises_were_kept},
};

const REDIS: [&str; 4] =
    ["--topology", "redis-cluster", "--faults", "redis,database-kill,server-kill,commit-cut,connection-cut"];

const LOST: [&str; 5] = [
    "primary of Redis hung, and its replica took over",
    "primary of Redis killed, and its replica took over",
    "primary of Redis killed while its replica lagged, which took over",
    "primary of Redis killed and restarted",
    "switchover to a replica of Redis",
];

const DUPLICATES: &str = "**duplicates**, after failovers that lost records";

async fn run_with(flags: &[&str]) -> Option<Ended> {
    let ended = run(&[&SHORT[..], &REDIS, flags].concat()).await?;
    promises_were_kept(&ended);
    for fault in LOST {
        assert!(ended.number(fault) > 0, "{fault}: {}", ended.said());
    }
    assert_eq!(ended.number("**unprotected runs**"), 0, "{}", ended.said());
    Some(ended)
}

/// The number of lost records depends on the moment.
#[tokio::test]
async fn what_redis_loses_is_counted_and_breaks_no_other_promise() {
    let Some(ended) = run_with(&["--replicas", "1"]).await else { return };
    // Whether there are any, or none.
    ended.number(DUPLICATES);
}

/// A primary that comes back empty, before it is replaced, has lost the records of all calls that were answered.
#[tokio::test]
async fn servers_without_persistence_make_duplicates() {
    let Some(ended) = run_with(&["--persistence", "nothing"]).await else { return };
    assert!(ended.number(DUPLICATES) > 0, "{}", ended.said());
}

#[tokio::test]
async fn there_is_no_transactional_mode() {
    let Some(ended) = run(&[&SHORT[..], &REDIS[..2], &["--mode", "transactional"]].concat()).await else { return };
    assert_eq!(ended.code, Some(2));
    assert!(ended.said().contains("no transaction spans Redis and PostgreSQL"), "{}", ended.said());
}
