//! The metrics that are documented, and those that the rules for Prometheus look at.

use std::collections::BTreeSet;

use tonic_idempotency::rejection::Reason;

const PAGE: &str = include_str!("../../../docs/operations.md");
const MODULE: &str = include_str!("../../../src/telemetry/mod.rs");
const CATALOGUE: &str = include_str!("../../../src/telemetry/catalogue.rs");

/// The metrics that the layer describes to the recorder.
fn described() -> BTreeSet<&'static str> {
    CATALOGUE.split('"').filter(|text| text.starts_with("idempotency_")).collect()
}

#[test]
fn are_all_that_the_layer_describes_and_no_others() {
    assert_eq!(described().len(), 32);
    for (prefix, text) in [("| `", PAGE), ("//! | `", MODULE)] {
        let rows = text.lines().filter_map(|line| line.strip_prefix(prefix)?.split('`').next());
        let documented: BTreeSet<_> = rows.filter(|name| name.starts_with("idempotency_")).collect();
        assert_eq!(documented, described(), "{prefix}");
    }
}

#[test]
fn are_the_ones_of_the_rules_with_the_names_that_prometheus_gives_them() {
    let rules = PAGE.split("```yaml\n").nth(1).and_then(|rules| rules.split("```").next()).expect("the rules");
    let is_in_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let expressions: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert!(expressions.len() > 10);
    for expression in expressions {
        let words = expression.split(|letter| !is_in_name(letter));
        let names: Vec<_> = words.filter(|word| word.starts_with("idempotency_")).collect();
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            let metric = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(described().contains(metric), "{name}");
            assert_eq!(metric.ends_with("_seconds"), name.ends_with("_bucket"), "{name}");
        }
        for reason in expression.split('"').filter(|text| text.starts_with("IDEMPOTENCY_")) {
            assert!(reason.parse::<Reason>().is_ok(), "{reason}");
        }
    }
}
