//! `results/promises.md`, and what the program says of its cost.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    command::{METHOD, REQUEST, check},
    server::Server,
};

#[test]
fn has_the_promises_as_the_program_lists_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/promises.md");
    let page = fs::read_to_string(path).unwrap_or_default();
    assert!(page == check(&["--list"]).stdout, "write it: tonic-idempotency check --list > results/promises.md");
}

/// A person consents to a number of calls.
#[test]
fn calls_as_often_as_is_announced() {
    let server = Server::start(None);
    let (url, count) = (server.url(), server.count());
    let arguments = [&url, METHOD, "--request", REQUEST, "--slow", "x-slow: 1000", "--count", &count];
    let announced = check(&arguments).stderr;
    let announced = announced.split_once("About ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let announced: u64 = announced.expect("a number of calls");
    let said = check(&[&arguments[..], &["--yes", "--json"]].concat());
    let last = said.stdout.lines().last().expect("a summary");
    let made = serde_json::from_str::<Value>(last).expect("JSON")["calls"].as_u64().expect("a number");
    assert!(made <= 310 && made.abs_diff(announced) <= announced / 10, "{made} calls, and {announced} were announced");
}
