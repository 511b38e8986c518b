//! The program `cargo run --example consumer`.

use std::process::Command;

use tonic_idempotency_tests::example;

/// Runs it, and returns whether it succeeds, with its lines.
fn run(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(example("consumer", "")).args(arguments).output().expect("it runs");
    let lines = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&lines).into_owned())
}

#[test]
fn bills_each_order_once_though_workers_are_killed_and_refuses_settings_that_do_not_fit() {
    if let Err(why) = scratch_postgres::find_program("nats-server") {
        return scratch_postgres::skip("nats-server", why);
    }
    let (succeeds, lines) = run(&["--orders", "1000"]);
    let counted = |what: &str| {
        let row = lines.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_else(|| panic!("{lines}"));
        row.split_whitespace().map(|count| count.parse::<u32>().expect("a count")).collect::<Vec<_>>()
    };
    assert_eq!(counted("orders billed once"), [970, 970]);
    assert_eq!(counted("orders billed twice"), [0, 0]);
    assert_eq!(counted("orders lost"), [0, 0]);
    assert_eq!(counted("orders booked once"), [970, 970]);
    assert_eq!(counted("orders booked twice"), [0, 0]);
    assert_eq!(counted("poison messages terminated"), [33, 33]);
    assert!(succeeds && lines.contains("1100 messages") && lines.contains("9 workers killed"), "{lines}");

    let (succeeds, lines) = run(&["--orders", "100", "--max-deliver", "5"]);
    assert!(!succeeds && lines.contains("raise max_deliver"), "{lines}");
}
