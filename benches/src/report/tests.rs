//! The order and the wording of a report.

use super::*;
use crate::{
    section::{Bound, Table},
    spread::Spread,
};

#[test]
fn a_report_has_its_costs_its_setting_its_sections_and_its_goals() {
    let costs = Table { caption: "Costs".to_owned(), columns: vec![String::new(), "ms".to_owned()], rows: Vec::new() };
    let markdown = report(Section { summary: Some(costs), ..section() }).to_markdown();
    let begins = "\
# Benchmarks

## What will it cost me, and what would my own code cost me?

**Costs**

|  | ms |
| --- | ---: |

## How it was measured

";
    assert!(markdown.starts_with(begins), "{markdown}");
    for line in [
        "| command | `cargo run --release -p benchmarks` |",
        "| took | 8m 42s |",
        "| commit | 0123456789ab, with changes |",
        "| a\\|b | 1,234 |",
        "1 of 4 are met, **3 missed**.",
        "| measure | goal | median (min–max) |  |",
        "| 4 KiB string | ≥ 0.9 × plain SHA-256 | 0.953 (0.900–1.000) | met |",
        "| map of strings | ≤ 3 × plain SHA-256 | 3.45 (3.00–4.00) | **missed** |",
        "| `a\\|b` | ≤ 0 allocations | 2 | **missed** |",
    ] {
        assert!(markdown.lines().any(|it| it == line), "{line} in {markdown}");
    }
    let section =
        "\n\n## Request hash\n\nText with *emphasis*.\n\n**By shape**\n\n| message | MB/s |\n| --- | ---: |\n";
    assert!(markdown.contains(section), "{markdown}");
    // Each limit once, and none of a goal that is met.
    let limit = "What limits those that are missed:\n\n- **map of strings** (× plain SHA-256); **a larger map** (× plain \
                 SHA-256): Sorting it *takes* that.\n- **`a|b`** (allocations): It has no profile: \
                 [`benches/README.md`](../benches/README.md) says how to make one.\n";
    assert!(markdown.ends_with(limit), "{markdown}");
}

#[test]
fn goals_that_are_all_met_need_no_limits() {
    let mut section = section();
    section.goals.truncate(1);
    let markdown = report(section).to_markdown();
    assert!(markdown.contains("All 1 are met."), "{markdown}");
    assert!(!markdown.contains("What limits") && !markdown.contains("**missed**"), "{markdown}");
}

#[test]
fn a_report_takes_the_place_of_an_earlier_one() -> Result<(), Error> {
    let docs = tempfile::tempdir()?;
    let file = docs.path().join("benchmarks.md");
    fs::write(&file, "before")?;
    let report = report(section());
    report.replace(&file)?;
    assert_eq!(fs::read_to_string(&file)?, report.to_markdown());
    assert_eq!(fs::read_dir(docs.path())?.count(), 1);
    Ok(())
}

fn report(section: Section) -> Report {
    let [command, date, commit, rust, processor, memory, system, load] =
        ["cargo run --release -p benchmarks", "", "0123456789ab, with changes", "", "", "", "", ""].map(str::to_owned);
    let setting = Setting { command, date, commit, rust, processor, memory, system, load };
    Report { setting, took: Duration::from_millis(522_345), sections: vec![section] }
}

fn section() -> Section {
    let goal = |measure: &str, bound, [median, min, max]: [f64; 3], unit: &str, limit: Option<&str>| {
        let goal = Goal::new(measure, bound, Spread { median, min, max }, unit);
        Goal { limit: limit.map(str::to_owned), ..goal }
    };
    let (hash, sorting) = ("× plain SHA-256", Some("Sorting it *takes* that."));
    Section {
        title: "Request hash",
        text: "\nText with *emphasis*.\n".to_owned(),
        summary: None,
        tables: vec![Table {
            caption: "By shape".to_owned(),
            columns: vec!["message".to_owned(), "MB/s".to_owned()],
            rows: vec![vec!["a|b".to_owned(), "1,234".to_owned()]],
        }],
        goals: vec![
            goal("4 KiB string", Bound::AtLeast(0.9), [0.953, 0.9, 1.0], hash, Some("would be the limit")),
            goal("map of strings", Bound::AtMost(3.0), [3.45, 3.0, 4.0], hash, sorting),
            goal("a larger map", Bound::AtMost(3.0), [4.0; 3], hash, sorting),
            goal("`a|b`", Bound::AtMost(0.0), [2.0; 3], "allocations", None),
        ],
    }
}
