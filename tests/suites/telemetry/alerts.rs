//! The rules for Prometheus fire when they have to, also over the restart of a server: `promtool test rules`.

use std::{env, fs, process::Command};

use uuid::Uuid;

const PAGE: &str = include_str!("../../../docs/operations.md");

/// Rules for what should never happen, and a series of each.
const NEVER: [(&str, &str); 3] = [
    ("IdempotencyCallsRunUnprotected", r#"idempotency_unprotected_total{procedure="/a.B/C",cause="unreachable"}"#),
    ("IdempotencyOutcomesGivenUp", r#"idempotency_outcomes_given_up_total{procedure="/a.B/C",step="complete"}"#),
    ("IdempotencyStoreFails", r#"idempotency_rejected_total{procedure="/a.B/C",reason="IDEMPOTENCY_STORE_FAILED"}"#),
];

/// The values of a counter by the minute, and when a rule has to fire: from minute to minute, and when not.
const COUNTERS: [(&str, &[u32], &[u32]); 5] = [
    // Nothing new.
    ("5x60", &[], &[15, 30, 60]),
    // The first increment of a new series.
    ("_x20 1x40", &[22, 28], &[10, 19, 35, 60]),
    // One more.
    ("1x20 2x40", &[22, 28], &[15, 20, 35, 60]),
    // A restart, and one more after it: the sum over time is smaller than before.
    ("5x20 _x3 1x40", &[26, 30], &[15, 20, 40, 60]),
    // A restart that takes long.
    ("5x20 _x15 1x40", &[38, 44], &[15, 20, 50, 60]),
];

/// The tests of the rules, as promtool reads them.
fn tests() -> String {
    let mut tests = "rule_files: [rules.yml]\nevaluation_interval: 1m\ntests:\n".to_owned();
    for (alert, series) in NEVER {
        for (values, fires, silent) in COUNTERS {
            tests += &format!(
                "- interval: 1m\n  input_series:\n  - series: '{series}'\n    values: '{values}'\n  alert_rule_test:\n"
            );
            let expected = fires.iter().map(|minute| (minute, true)).chain(silent.iter().map(|minute| (minute, false)));
            for (minute, fires) in expected {
                tests += &format!("  - eval_time: {minute}m\n    alertname: {alert}\n    exp_alerts:");
                tests += &if fires {
                    format!(
                        "\n    - exp_labels: {{ severity: page }}\n      exp_annotations: {{ summary: {} }}\n",
                        summary(alert)
                    )
                } else {
                    " []\n".to_owned()
                };
            }
        }
    }
    tests
}

fn rules() -> &'static str {
    PAGE.split("```yaml\n").nth(1).and_then(|rules| rules.split("```").next()).expect("the rules")
}

/// The summary of a rule, in its quotes.
fn summary(alert: &str) -> &'static str {
    let rule = rules().split("- alert: ").find(|rule| rule.starts_with(&format!("{alert}\n"))).expect("the rule");
    rule.split("summary: ").nth(1).and_then(|text| text.split(" }").next()).expect("a summary")
}

#[test]
fn fire_when_what_should_never_happen_does_also_after_a_restart() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return scratch_postgres::skip("promtool", "it is not on PATH: apt install prometheus");
    }
    let directory = env::temp_dir().join(format!("idempotency-alerts-{}", Uuid::new_v4()));
    fs::create_dir(&directory).expect("a directory");
    fs::write(directory.join("rules.yml"), rules()).expect("a file");
    fs::write(directory.join("tests.yml"), tests()).expect("a file");
    let output = Command::new("promtool").args(["test", "rules", "tests.yml"]).current_dir(&directory).output();
    let output = output.expect("promtool");
    fs::remove_dir_all(&directory).expect("the directory");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{said}");
}
