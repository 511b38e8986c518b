//! The order and the wording of a report.

use super::*;
use crate::{
    section::{Bound, Summary, Table},
    spread::Spread,
};

#[test]
fn a_report_begins_with_what_the_layer_costs() {
    let table = Table { caption: "Costs".to_owned(), columns: vec![String::new(), "ms".to_owned()], rows: Vec::new() };
    let summary = Summary { sentences: ["One.", "Two.", "Three.", "Four."].map(str::to_owned), table };
    let markdown = markdown(vec![section(), Section { summary: Some(summary), ..section() }]);
    let expected = "\
# Benchmarks

## What will it cost me, and what would my own code cost me?

One.

Two.

Three.

Four.

**Costs**

|  | ms |
| --- | ---: |

## How it was measured

";
    assert!(markdown.starts_with(expected), "{markdown}");
}

#[test]
fn a_report_has_its_setting() {
    let markdown = markdown(vec![section()]);
    assert!(markdown.starts_with("# Benchmarks\n\n## How it was measured\n\n"), "{markdown}");
    for line in [
        "| command | `cargo run --release -p benchmarks` |",
        "| took | 8m 42s |",
        "| commit | 0123456789ab, with changes |",
        "| processor | model_1, threads: 2 |",
        "| load before | 0.10 |",
    ] {
        assert!(markdown.lines().any(|it| it == line), "{line} in {markdown}");
    }
}

#[test]
fn a_missed_goal_is_marked_as_missed() {
    let markdown = markdown(vec![section()]);
    for line in [
        "1 of 4 are met, **3 missed**.",
        "| measure | goal | median (min–max) |  |",
        "| --- | ---: | ---: | ---: |",
        "| 4 KiB string | ≥ 0.9 × plain SHA-256 | 0.953 (0.900–1.000) | met |",
        "| map of strings | ≤ 3 × plain SHA-256 | 3.45 (3.00–4.00) | **missed** |",
        "| `a\\|b` | ≤ 0 allocations | 2 | **missed** |",
        "| a larger map | ≤ 3 × plain SHA-256 | 4 | **missed** |",
    ] {
        assert!(markdown.lines().any(|it| it == line), "{line} in {markdown}");
    }
}

#[test]
fn a_limit_is_said_once_for_all_goals_that_it_keeps_from_being_met() {
    let markdown = markdown(vec![section()]);
    let limits = "\
What limits those that are missed:

- **map of strings** (× plain SHA-256); **a larger map** (× plain SHA-256): Sorting it *takes* that.
- **`a|b`** (allocations): It has no profile: [`benches/README.md`](../benches/README.md) says how to make one.
";
    assert!(markdown.ends_with(limits), "{markdown}");
    assert!(!markdown.contains("would be the limit"), "{markdown}");
}

#[test]
fn goals_that_are_all_met_need_no_limits() {
    let mut section = section();
    section.goals.truncate(1);
    let markdown = markdown(vec![section]);
    assert!(markdown.contains("All 1 are met."), "{markdown}");
    assert!(!markdown.contains("What limits") && !markdown.contains("**missed**"), "{markdown}");
}

#[test]
fn a_section_has_its_text_and_tables() {
    let markdown = markdown(vec![section()]);
    let expected = r"

## Request hash

Text with *emphasis*.

**By shape**

| message | MB/s |
| --- | ---: |
| a\|b | 1,234 |

## Goals";
    assert!(markdown.contains(expected), "{markdown}");
}

#[test]
fn every_row_of_a_table_has_as_many_cells_as_its_header() {
    let markdown = markdown(vec![section()]);
    let cells = |line: &str| line.replace(r"\|", "").matches('|').count();
    for table in markdown.split("\n\n").filter(|block| block.starts_with('|')) {
        let counts: Vec<_> = table.lines().map(cells).collect();
        assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
    }
}

#[test]
fn a_report_takes_the_place_of_an_earlier_one() -> Result<(), Error> {
    let docs = tempfile::tempdir()?;
    let file = docs.path().join("benchmarks.md");
    fs::write(&file, "before")?;
    let report = report(vec![section()]);
    report.replace(&file)?;
    assert_eq!(fs::read_to_string(&file)?, report.to_markdown());
    assert_eq!(fs::read_dir(docs.path())?.count(), 1);
    Ok(())
}

fn markdown(sections: Vec<Section>) -> String {
    report(sections).to_markdown()
}

fn report(sections: Vec<Section>) -> Report {
    let setting = Setting {
        command: "cargo run --release -p benchmarks".to_owned(),
        date: "2000-01-01T00:00:00Z".to_owned(),
        commit: "0123456789ab, with changes".to_owned(),
        rust: "rustc 1.2.3".to_owned(),
        processor: "model_1, threads: 2".to_owned(),
        memory: "8 GiB".to_owned(),
        system: "Linux".to_owned(),
        load: "0.10".to_owned(),
    };
    Report { setting, took: Duration::from_millis(522_345), sections }
}

fn section() -> Section {
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
            Goal {
                measure: "4 KiB string".to_owned(),
                bound: Bound::AtLeast(0.9),
                figure: Spread { median: 0.953, min: 0.9, max: 1.0 },
                unit: "× plain SHA-256".to_owned(),
                limit: Some("would be the limit".to_owned()),
            },
            Goal {
                measure: "map of strings".to_owned(),
                bound: Bound::AtMost(3.0),
                figure: Spread { median: 3.45, min: 3.0, max: 4.0 },
                unit: "× plain SHA-256".to_owned(),
                limit: Some("Sorting it *takes* that.".to_owned()),
            },
            Goal {
                measure: "a larger map".to_owned(),
                bound: Bound::AtMost(3.0),
                figure: Spread { median: 4.0, min: 4.0, max: 4.0 },
                unit: "× plain SHA-256".to_owned(),
                limit: Some("Sorting it *takes* that.".to_owned()),
            },
            Goal {
                measure: "`a|b`".to_owned(),
                bound: Bound::AtMost(0.0),
                figure: Spread { median: 2.0, min: 2.0, max: 2.0 },
                unit: "allocations".to_owned(),
                limit: None,
            },
        ],
    }
}
