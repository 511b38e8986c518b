//! The metrics that are documented, and those that the rules for Prometheus and the dashboard look at.

use std::collections::BTreeSet;

use tonic_idempotency::rejection::Reason;
use tonic_idempotency_tests::rules::rules;

const PAGE: &str = include_str!("../../../docs/operations.md");
const MODULE: &str = include_str!("../../../src/telemetry/mod.rs");
const CATALOGUE: &str = include_str!("../../../src/telemetry/catalogue.rs");

/// The metrics that the layer describes to the recorder.
fn described() -> BTreeSet<&'static str> {
    CATALOGUE.split('"').filter(|text| text.starts_with("idempotency_")).collect()
}

/// The histograms among them.
fn histograms() -> BTreeSet<&'static str> {
    let rows = CATALOGUE.split("Histogram,").skip(1);
    rows.filter_map(|row| row.trim_start().strip_prefix('"')?.split('"').next()).collect()
}

/// Asserts that an expression has metrics, all of which are described, under the names that Prometheus gives them, and known reasons.
#[track_caller]
pub(crate) fn assert_described(expression: &str) {
    let is_in_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = expression.split(|letter| !is_in_name(letter));
    let names: Vec<_> = words.filter(|word| word.starts_with("idempotency_")).collect();
    assert!(!names.is_empty(), "{expression}");
    let (described, histograms) = (described(), histograms());
    for name in names {
        let of = ["_bucket", "_count", "_sum"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
        let is_known = match of {
            Some(histogram) => histograms.contains(histogram),
            None => described.contains(name) && !histograms.contains(name),
        };
        assert!(is_known, "{name} in {expression}");
    }
    for reason in expression.split('"').filter(|text| text.starts_with("IDEMPOTENCY_")) {
        assert!(reason.parse::<Reason>().is_ok(), "{reason}");
    }
}

#[test]
fn are_all_that_the_layer_describes_and_no_others() {
    assert_eq!((described().len(), histograms().len()), (33, 5));
    for (prefix, text) in [("| `", PAGE), ("//! | `", MODULE)] {
        let rows = text.lines().filter_map(|line| line.strip_prefix(prefix)?.split('`').next());
        let documented: BTreeSet<_> = rows.filter(|name| name.starts_with("idempotency_")).collect();
        assert_eq!(documented, described(), "{prefix}");
    }
}

#[test]
fn are_the_ones_of_the_rules() {
    for rule in rules() {
        assert_described(&rule.expression);
    }
}

/// The table of the page says what to do for each.
#[test]
fn are_rules_of_the_page_s_table() {
    let table: BTreeSet<_> =
        PAGE.split('`').filter(|word| word.starts_with("Idempotency") && word.len() > 12).collect();
    let alerts: BTreeSet<_> = rules().into_iter().map(|rule| rule.alert).collect();
    let missing: Vec<_> = alerts.difference(&table).collect();
    assert!(missing.is_empty(), "docs/operations.md lacks {missing:?}");
}
