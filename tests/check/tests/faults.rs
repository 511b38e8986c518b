//! Each promise is broken by some server, and that server is blamed for nothing else.

use std::{
    collections::BTreeSet,
    thread::{self, ScopedJoinHandle},
};

use crate::{
    command::{check_all, verdicts},
    server::Server,
};

/// The faults, each with exactly the promises that it breaks.
const FAULTS: &[(Option<&str>, &[&str])] = &[
    (None, &[]),
    (Some("reserves-at-headers"), &["F1", "F2", "F3"]),
    (Some("status-stuck"), &["R5"]),
    (Some("status-turns-back"), &["R5"]),
    (Some("effect-first"), &["F8"]),
    (Some("memory-only"), &["F11"]),
    (Some("cache-then-run"), &["E2", "E3", "E4", "F10", "F4", "F5", "F6", "F9", "I2"]),
    (Some("cache-per-server"), &["E4", "E5"]),
    (Some("no-user"), &["I4", "I5"]),
    (Some("no-procedure"), &["I3", "T2"]),
    (Some("no-hash"), &["I1", "T1"]),
    (Some("hash-at-end"), &["I2"]),
    (Some("mismatch-evicts"), &["I6"]),
    (Some("raw-hash"), &["H1", "H2", "H3", "H4", "H5"]),
    (Some("hash-compressed"), &["H6"]),
    (Some("unkeyed-over-web"), &["H7"]),
    (Some("unkeyed-over-connect"), &["H8"]),
    (Some("unkeyed-over-json"), &["H9"]),
    (Some("key-as-text"), &["K1", "K2", "K6", "T6"]),
    (Some("joins-keys"), &["K3", "K4", "T3"]),
    (Some("first-of-keys"), &["K4", "T3"]),
    (Some("truncates-keys"), &["K5"]),
    (Some("empty-is-a-key"), &["K6"]),
    (Some("fresh-response"), &["R1"]),
    (Some("headers-lost"), &["R2"]),
    (Some("trailers-lost"), &["R3"]),
    (Some("error-kept-once"), &["R4", "T5"]),
    (Some("marks-all"), &["R6"]),
    (Some("expires-grows"), &["R7"]),
    (Some("expires-early"), &["R8"]),
    (Some("freed-on-hang-up"), &["F4", "F5", "F6", "F9"]),
    (Some("freed-if-unread"), &["E6", "F7"]),
    (Some("empty-in-progress"), &["F10"]),
    (Some("plain-refusals"), &["T1", "T2", "T3", "T4"]),
    (Some("says-kept"), &["T5"]),
    (Some("refuses-forms"), &["T6"]),
    (Some("headers-without-key"), &["T7"]),
];

/// The faults that show only after the server was killed.
const AFTER_RESTART: [Option<&str>; 3] = [None, Some("effect-first"), Some("memory-only")];

/// All are checked at once: nearly all of the time of a check is waiting.
#[test]
fn each_server_breaks_its_promises_and_no_other() {
    let wrong: Vec<_> = thread::scope(|scope| {
        let checks = FAULTS.iter().map(|(fault, broken)| scope.spawn(|| difference(*fault, broken)));
        let checks: Vec<ScopedJoinHandle<'_, _>> = checks.collect();
        checks.into_iter().filter_map(|check| check.join().expect("no panic")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks a server, and returns how the report differs from what is expected.
fn difference(fault: Option<&'static str>, broken: &[&str]) -> Option<String> {
    let server = Server::start(fault);
    let restart = server.restart();
    let mut more = vec!["--json", "--level", "tonic-idempotency"];
    if AFTER_RESTART.contains(&fault) {
        more.extend(["--restart", &restart]);
    }
    let said = check_all(&server, &more);
    let found = verdicts(&said);
    let of = |wanted: &str| {
        found.iter().filter(|(_, (verdict, _))| verdict == wanted).map(|(code, _)| code.as_str()).collect()
    };
    let failed: BTreeSet<&str> = of("failed");
    let not_checked: BTreeSet<&str> = of("not_checked");
    let expected: BTreeSet<&str> = broken.iter().copied().collect();
    let unchecked: BTreeSet<&str> =
        if more.contains(&"--restart") { BTreeSet::new() } else { BTreeSet::from(["F11", "F8"]) };
    let status = Some(i32::from(!broken.is_empty()));
    let is_as_expected = failed == expected && not_checked == unchecked && said.status == status && !found.is_empty();
    let details = || found.iter().filter(|(_, (verdict, _))| verdict != "ok").collect::<Vec<_>>();
    (!is_as_expected).then(|| format!("{fault:?}, {:?}: {:?} {}", said.status, details(), said.stderr))
}

#[test]
fn each_promise_has_a_fault() {
    let said = crate::command::check(&["--list"]);
    let rows = said.stdout.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    let promises: BTreeSet<_> = rows.filter(|code| code.chars().any(|letter| letter.is_ascii_digit())).collect();
    let mut broken: BTreeSet<_> = FAULTS.iter().flat_map(|(_, codes)| codes.iter().copied()).collect();
    // `a_server_without_keys_is_said_once`.
    broken.insert("E1");
    assert_eq!(promises, broken);
}

#[test]
fn a_server_without_keys_is_said_once() {
    let said = check_all(&Server::start(Some("knows-no-keys")), &["--json"]);
    let found = verdicts(&said);
    assert_eq!(said.status, Some(1));
    assert!(said.stdout.contains("the server knows no keys: 2 effects instead of 1"), "{}", said.stdout);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["E1"]);
}
