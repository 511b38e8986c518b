//! Clients that die: each operation happens once, and the harness notices if it does not.

use crate::harness::run;

/// A run that kills clients, servers and database, and is short even on a busy machine.
const SHORT: [&str; 11] = [
    "--clients-die",
    "--operations",
    "200",
    "--seed",
    "1",
    "--servers",
    "2",
    "--clients",
    "4",
    "--mode",
    "transactional",
];

/// One without another fault than dead clients, on one server.
const SHORTER: [&str; 11] = [
    "--clients-die",
    "--operations",
    "100",
    "--servers",
    "1",
    "--clients",
    "2",
    "--faults",
    "none",
    "--mode",
    "transactional",
];

/// One in the other mode, where the clients alone die.
const RESERVED: [&str; 8] =
    ["--clients-die", "--operations", "100", "--seed", "1", "--clients", "4", "--mode=reserved"];

const PROMISES: [&str; 7] = [
    "operations that happened twice",
    "operations that were lost",
    "operations without an end",
    "operations that failed",
    "operations that ended without an answer of a server",
    "operations with other than one key on the wire",
    "clients with a journal that is not empty",
];

#[tokio::test]
async fn clients_with_a_journal_end_each_operation_once_wherever_they_are_killed() {
    let Some(ended) = run(&SHORT).await else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    for promise in PROMISES {
        assert_eq!(ended.broken(promise), 0, "{promise}: {}", ended.said());
    }
    for step in ["before_write", "after_write", "before_send", "after_answer", "before_end", "after_end"] {
        assert!(ended.number(&format!("client killed at {step}")) > 0, "{step}: {}", ended.said());
    }
    assert!(ended.number("PostgreSQL killed and restarted") > 0, "{}", ended.said());
    assert!(ended.number("entries that a new life has found") > 0, "{}", ended.said());
}

/// Replies of a proxy in place of the server's answer.
const DISTORTED: [&str; 6] = [
    "a proxy's page",
    "a proxy's error",
    "neither body nor status",
    "a success without a body",
    "a part of the body",
    "a body without an end",
];

#[tokio::test]
async fn in_reserved_mode_do_so_behind_a_proxy_that_distorts_answers() {
    let Some(ended) = run(&RESERVED).await else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    for promise in PROMISES {
        assert_eq!(ended.broken(promise), 0, "{promise}: {}", ended.said());
    }
    for distorted in DISTORTED {
        assert!(ended.number(distorted) > 0, "{distorted}: {}", ended.said());
    }
}

#[tokio::test]
async fn clients_that_take_a_page_for_a_success_end_operations_that_no_server_has_answered() {
    let Some(ended) = run(&[&SHORTER[..], &["--without", "status"]].concat()).await else { return };
    assert_eq!(ended.code, Some(1), "{}", ended.said());
    assert!(ended.broken("operations that ended without an answer of a server") > 0, "{}", ended.said());
}

#[tokio::test]
async fn clients_that_forget_their_journal_lose_operations() {
    let Some(ended) = run(&[&SHORTER[..], &["--without", "journal"]].concat()).await else { return };
    assert_eq!(ended.code, Some(1), "{}", ended.said());
    assert!(ended.broken("operations that were lost") > 0, "{}", ended.said());
}

#[tokio::test]
async fn clients_with_a_key_for_each_attempt_do_operations_twice() {
    let Some(ended) = run(&[&SHORTER[..], &["--without", "key"]].concat()).await else { return };
    assert_eq!(ended.code, Some(1), "{}", ended.said());
    assert!(ended.broken("operations that happened twice") > 0, "{}", ended.said());
    assert!(ended.broken("operations with other than one key on the wire") > 0, "{}", ended.said());
}
