//! The `runbook_url` of each rule leads to a section that begins with a command.

use std::{fs, path::Path};

use tonic_idempotency_tests::rules::rules;

/// The commands that a section may begin with.
const COMMANDS: [&str; 6] = ["doctor", "inspect", "list", "release", "status", "sweep"];

#[test]
fn begin_with_a_command() {
    for rule in rules() {
        let (page, heading) = rule.runbook_url.split_once('#').expect("a page and a heading");
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page)).expect("a page");
        let section = section(&page, heading).unwrap_or_else(|| panic!("{} leads to no heading", rule.runbook_url));
        let block = section.trim_start().strip_prefix("```").and_then(|block| block.split("```").next());
        let (language, code) = block.and_then(|block| block.split_once('\n')).unwrap_or_default();
        let is_command = match language {
            "sh" => code.lines().next().is_some_and(|line| COMMANDS.iter().any(|it| is_of(line, it))),
            "promql" => code.contains("idempotency_"),
            _ => false,
        };
        assert!(is_command, "{} begins with {language:?} {code:?}", rule.runbook_url);
    }
}

fn is_of(line: &str, command: &str) -> bool {
    line.strip_prefix("tonic-idempotency ").is_some_and(|rest| rest.split(' ').next() == Some(command))
}

/// The text under a heading, by the name that GitHub gives it.
fn section<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = page.split("\n#").map(|part| part.split_once('\n').unwrap_or_default());
    let name_of = |heading: &str| heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    parts.find(|(heading, _)| name_of(heading) == name).map(|(_, text)| text)
}
