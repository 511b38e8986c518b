//! The program `cargo run --example client`.

use std::process::Command;

use tonic_idempotency_tests::example;

/// Without a terminal it prints lines. The last one has what it counted.
#[test]
fn creates_each_project_once_though_answers_are_lost() {
    let database = tokio::runtime::Runtime::new().expect("a runtime").block_on(scratch_postgres::database(None));
    let mut client = Command::new(example("client", ""));
    client.args(["--calls", "3", "--lose", "2", "--work", "300ms"]).env("DATABASE_URL", database.url());
    let output = client.output().expect("it runs");
    let (lines, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{lines}{errors}");
    assert_eq!(lines.matches("the connection broke: no answer").count(), 6, "{lines}");
    assert_eq!(lines.matches("is completed, after").count(), 3, "{lines}");
    let last = lines.lines().last().expect("a line");
    assert!(last.starts_with("calls: 3; attempts: ") && last.ends_with("; projects: 3"), "{last}");
    assert!(!lines.contains('\u{1b}'), "no control characters");
}
