//! The rules for Prometheus in `observability/alerts.yml`.

/// The file.
pub const FILE: &str = include_str!("../../observability/alerts.yml");

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name.
    pub alert: &'static str,
    /// Its expression, on one line.
    pub expression: String,
    /// A page of this repository, and a heading in it.
    pub runbook_url: &'static str,
    severity: &'static str,
    summary: &'static str,
}

impl Rule {
    /// The labels of its alert, without braces.
    pub fn labels(&self) -> String {
        let severity = format!("severity: {}", self.severity);
        if self.is_by_procedure() { format!("{severity}, procedure: {PROCEDURE}") } else { severity }
    }

    /// Asserts that each series of its expression is among these, as a server gives them to Prometheus, and is not zero.
    ///
    /// # Panics
    ///
    /// One is not.
    #[track_caller]
    pub fn assert_has_series(&self, metrics: &str) {
        let is_in_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        for (start, _) in self.expression.match_indices("idempotency_") {
            let rest = &self.expression[start..];
            let (name, rest) = rest.split_at(rest.find(|letter| !is_in_name(letter)).unwrap_or(rest.len()));
            let label = rest.strip_prefix('{').and_then(|labels| labels.split('}').next()).unwrap_or_default();
            let series = metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
            let mut series = series.filter(|(labels, value)| {
                labels.is_empty() | labels.starts_with('{') && labels.contains(label) && value.parse() != Ok(0.0)
            });
            assert!(series.next().is_some(), "{}: no {name}{{{label}}} in {metrics}", self.alert);
        }
    }

    /// The annotations of its alert, without braces.
    pub fn annotations(&self) -> String {
        let summary = self.summary.replace("{{ $labels.procedure }}", PROCEDURE);
        format!("summary: {summary}, runbook_url: {}", self.runbook_url)
    }

    fn is_by_procedure(&self) -> bool {
        let groups = self.expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
        groups.into_iter().any(|labels| labels.split(", ").any(|label| label == "procedure"))
    }
}

/// The procedure of the series in tests.
pub const PROCEDURE: &str = "/a.B/C";

/// All rules.
///
/// # Panics
///
/// The file is not written as it was.
pub fn rules() -> Vec<Rule> {
    let rules: Vec<_> = FILE.split("- alert: ").skip(1).map(rule).collect();
    assert!(rules.len() >= 16, "{rules:?}");
    rules
}

fn rule(text: &'static str) -> Rule {
    let after = |name: &str| text.split_once(name).unwrap_or_else(|| panic!("no {name} in {text}")).1;
    let line = |name: &str| after(name).lines().next().expect("a line").trim();
    let expression = after("expr:").split("\n        labels:").next().expect("the expression");
    let expression = expression.split("\n        for:").next().expect("the expression").trim().trim_start_matches(">-");
    Rule {
        alert: text.lines().next().expect("a name"),
        expression: expression.split_whitespace().collect::<Vec<_>>().join(" "),
        severity: line("severity: ").trim_end_matches(" }"),
        summary: line("summary: "),
        runbook_url: line("runbook_url: "),
    }
}
