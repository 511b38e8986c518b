//! `tonic-idempotency check`, run as a user runs it.

use std::{
    collections::BTreeMap,
    process::{Command, Output},
};

use serde_json::Value;
use tonic_idempotency_tests::binary;

use crate::server::Server;

pub(crate) const METHOD: &str = "check.v1.Shop/CreateOrder";

/// A request that can be encoded in all ways.
pub(crate) const REQUEST: &str =
    r#"{"reference": "{{uuid}}", "item": "a book", "labels": {"a": "1", "b": "2", "c": "3"}, "amounts": [1, 2, 300]}"#;

/// A secret that no output may have.
pub(crate) const TOKEN: &str = "swordfish-0123456789";

/// The program's output, and its exit status.
pub(crate) struct Said {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn check(arguments: &[&str]) -> Said {
    let mut command = Command::new(binary("tonic-idempotency", ""));
    command.arg("check").args(arguments).env("TOKEN", TOKEN);
    let Output { status, stdout, stderr } = command.output().expect("the program runs");
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).expect("text"));
    assert!(!stdout.contains(TOKEN) && !stderr.contains(TOKEN), "a token: {stdout}{stderr}");
    Said { status: status.code(), stdout, stderr }
}

/// Checks a server with all that is needed to check everything, but for `--restart`.
pub(crate) fn check_all(server: &Server, more: &[&str]) -> Said {
    let other = format!("check.v1.Shop/CreateRefund {REQUEST}");
    let mut arguments = vec![
        "--request",
        REQUEST,
        "--header",
        "authorization: Bearer ${TOKEN}",
        "--header",
        "x-user: alice",
        "--second-header",
        "x-user: bobby",
        "--slow",
        "x-slow: 1000",
        "--other",
        &other,
        "--yes",
    ];
    let (url, also, count) = (server.url(), server.also(), server.count());
    arguments.extend(["--also", &also, "--count", &count]);
    arguments.extend(more);
    check(&[&[url.as_str(), METHOD][..], &arguments].concat())
}

/// The verdict of each promise, of a report in JSON, and what was seen.
pub(crate) fn verdicts(said: &Said) -> BTreeMap<String, (String, String)> {
    let lines = said.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let entries = lines.filter(|line| line.get("code").is_some());
    entries.map(|line| (text(&line, "code"), (text(&line, "verdict"), text(&line, "detail")))).collect()
}
