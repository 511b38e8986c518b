//! `observability/dashboard.json`, for Grafana.

use std::{collections::HashSet, fmt::Write as _};

use serde_json::Value;

use crate::{documented::assert_described, promtool::Promtool};

fn dashboard() -> Value {
    serde_json::from_str(include_str!("../../../observability/dashboard.json")).expect("JSON")
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().unwrap_or_else(|| panic!("no {name} in {of}"))
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_else(|| panic!("no {name} in {of}"))
}

/// The expressions of all panels.
fn expressions(dashboard: &Value) -> Vec<&str> {
    let panels = list(dashboard, "panels").iter().filter(|panel| panel["type"] != "row");
    panels.flat_map(|panel| list(panel, "targets")).map(|target| text(target, "expr")).collect()
}

#[test]
fn has_a_row_for_each_question_with_panels_that_follow_its_variables() {
    let dashboard = dashboard();
    let names: Vec<_> = list(&dashboard["templating"], "list").iter().map(|variable| text(variable, "name")).collect();
    assert_eq!(names, ["datasource", "job"]);
    let (mut ids, mut empty) = (HashSet::new(), None);
    for panel in list(&dashboard, "panels") {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        let title = text(panel, "title");
        if panel["type"] == "row" {
            assert!(title.ends_with('?'), "{title}");
            assert_eq!(empty.replace(title), None, "a row without panels");
            continue;
        }
        assert!(!title.is_empty() && !list(panel, "targets").is_empty(), "{panel}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        empty = None;
    }
    assert_eq!(empty, None, "a row without panels");
    for expression in expressions(&dashboard) {
        let selectors = [expression.matches("idempotency_").count(), expression.matches(r#"{job=~"$job""#).count()];
        assert!(selectors[0] > 0 && selectors[0] == selectors[1], "{expression} leaves the job out");
    }
}

#[test]
fn shows_only_metrics_that_are_described() {
    expressions(&dashboard()).into_iter().for_each(assert_described);
}

#[test]
fn has_expressions_that_prometheus_can_parse() {
    let Some(promtool) = Promtool::find() else { return };
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (number, expression) in expressions(&dashboard()).into_iter().enumerate() {
        let expression = expression.replace("$__rate_interval", "5m").replace("$job", ".+");
        assert!(!expression.contains(['$', '\'']), "{expression}");
        write!(rules, "  - record: panel:{number}\n    expr: '{expression}'\n").expect("a string");
    }
    promtool.succeeds(&["check", "rules"], &[("rules.yml", &rules)]);
}
