//! The rules for Prometheus fire when they have to, end, and are right over the restart of a server: `promtool test rules`.

use std::{collections::HashSet, fmt::Write as _};

use tonic_idempotency_tests::rules::{self, rules};

use crate::{
    faults::{Fault, faults},
    promtool::Promtool,
};

/// promtool's tests of the rules, on the faults whose values are `step` minutes apart.
fn tests(step: u32) -> String {
    let mut tests = format!("rule_files: [alerts.yml]\nevaluation_interval: {step}m\ntests:\n");
    for Fault { alert, when, series, fires, silent, .. } in faults().iter().filter(|fault| fault.step == step) {
        let rule = rules().into_iter().find(|rule| rule.alert == *alert).expect("the rule of a fault");
        write!(tests, "- name: '{alert}: {when}'\n  interval: {step}m\n  input_series:\n").expect("a string");
        for (series, values) in series {
            write!(tests, "  - series: '{series}'\n    values: '{values}'\n").expect("a string");
        }
        tests += "  alert_rule_test:\n";
        for (at, fires) in fires.iter().map(|at| (at, true)).chain(silent.iter().map(|at| (at, false))) {
            let (labels, annotations) = (rule.labels(), rule.annotations());
            let alerts = if fires {
                format!("\n    - exp_labels: {{ {labels} }}\n      exp_annotations: {{ {annotations} }}")
            } else {
                " []".to_owned()
            };
            let minute = at * step;
            write!(tests, "  - eval_time: {minute}m\n    alertname: {alert}\n    exp_alerts:{alerts}\n")
                .expect("a string");
        }
    }
    tests
}

#[test]
fn fire_on_their_faults_and_end_also_over_a_restart() {
    let Some(promtool) = Promtool::find() else { return };
    let steps: HashSet<_> = faults().iter().map(|fault| fault.step).collect();
    for step in steps {
        promtool.succeeds(&["test", "rules"], &[("tests.yml", &tests(step)), ("alerts.yml", rules::FILE)]);
    }
}

#[test]
fn have_a_fault_before_which_they_are_silent_that_ends_and_a_restart() {
    let faults = faults();
    for rule in rules() {
        let of_rule: Vec<_> = faults.iter().filter(|fault| fault.alert == rule.alert).collect();
        let alert = rule.alert;
        assert!(of_rule.iter().any(|fault| fault.when.contains("restart")), "{alert}");
        let is_whole = |fault: &&&Fault| match (fault.fires.first(), fault.fires.last()) {
            (Some(first), Some(last)) => {
                [fault.silent.iter().min() < Some(first), fault.silent.iter().max() > Some(last)] == [true; 2]
            }
            _ => false,
        };
        assert!(of_rule.iter().any(|fault| is_whole(&fault)), "{alert} has no fault that begins and ends");
    }
}
