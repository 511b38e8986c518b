//! Clients that die: each operation happens once, and the harness notices if it does not.

use crate::harness::run;

/// A run that kills clients, servers and database, and is short even on a busy machine.
const SHORT: [&str; 9] = ["--clients-die", "--operations", "200", "--seed", "1", "--servers", "2", "--clients", "4"];

/// One without another fault than dead clients, on one server.
const SHORTER: [&str; 9] =
    ["--clients-die", "--operations", "100", "--servers", "1", "--clients", "2", "--faults", "none"];

const PROMISES: [&str; 6] = [
    "operations that happened twice",
    "operations that were lost",
    "operations without an end",
    "operations that failed",
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
