//! Writes a report as Markdown. Titles, captions and cells are Markdown themselves.

use std::time::Duration;

use super::{Report, Setting};
use crate::section::{Section, Table};

const INTRODUCTION: &str = "\
The command below has made this page, and all figures are from its run. [`benches/README.md`](../benches/README.md) says what is \
measured, and how to read the figures: ratios are taken within a round, in which the things that are compared take turns, and `1.23 (1.10–1.40)` \
is the median of the rounds with the least and the greatest. Each section below has the method and the results of one part. The goals, met \
and missed, are [at the end](#goals), with the limits of those that are missed.";

/// The limit of a missed goal for which no section states one.
const NOT_PROFILED: &str = "It has no profile: [`benches/README.md`](../benches/README.md) says how to make one.";

/// Returns the whole report: what the layer costs, how it was measured, the results, and the goals.
pub(super) fn of(report: &Report) -> String {
    let mut blocks = vec!["# Benchmarks".to_owned()];
    blocks.extend(report.sections.iter().filter_map(|section| section.summary.as_ref()).flat_map(summary));
    blocks.extend(["## How it was measured".to_owned(), INTRODUCTION.to_owned(), setting(report)]);
    blocks.extend(report.sections.iter().flat_map(section));
    blocks.extend(goals(report));
    blocks.extend(limits(report));
    blocks.join("\n\n") + "\n"
}

fn setting(report: &Report) -> String {
    let Setting { command, date, commit, rust, processor, memory, system, load } = &report.setting;
    let whole_seconds = Duration::from_secs(report.took.as_secs());
    let rows = [
        ["command", &format!("`{command}`")],
        ["date", date],
        ["took", &humantime::format_duration(whole_seconds).to_string()],
        ["commit", commit],
        ["compiler", rust],
        ["processor", processor],
        ["memory", memory],
        ["system", system],
        ["load before", load],
    ];
    table(&["", ""], rows.iter().map(|row| row.map(str::to_owned)), Align::Left)
}

fn summary(table: &Table) -> Vec<String> {
    let heading = "## What will it cost me, and what would my own code cost me?".to_owned();
    [vec![heading], captioned(table).to_vec()].concat()
}

fn section(section: &Section) -> Vec<String> {
    let mut blocks = vec![format!("## {}", section.title), section.text.trim().to_owned()];
    blocks.extend(section.tables.iter().flat_map(captioned));
    blocks
}

fn captioned(Table { caption, columns, rows }: &Table) -> [String; 2] {
    [format!("**{caption}**"), table(columns, rows.iter().cloned(), Align::Right)]
}

/// Returns what limits the goals that are missed, each limit once.
fn limits(report: &Report) -> Option<String> {
    let mut limits: Vec<(&str, Vec<String>)> = Vec::new();
    for goal in report.missed() {
        let limit = goal.limit.as_deref().unwrap_or(NOT_PROFILED);
        let measure = format!("**{}** ({})", goal.measure, goal.unit);
        match limits.iter_mut().find(|(other, _)| *other == limit) {
            Some((_, measures)) => measures.push(measure),
            None => limits.push((limit, vec![measure])),
        }
    }
    let limits: Vec<_> = limits.iter().map(|(limit, measures)| format!("- {}: {limit}", measures.join("; "))).collect();
    (!limits.is_empty()).then(|| format!("What limits those that are missed:\n\n{}", limits.join("\n")))
}

fn goals(report: &Report) -> Vec<String> {
    let (all, missed) = (report.goals().count(), report.missed().count());
    if all == 0 {
        return Vec::new();
    }
    let summary = match missed {
        0 => format!("All {all} are met."),
        _ => format!("{} of {all} are met, **{missed} missed**.", all - missed),
    };
    let rows = report.goals().map(|goal| {
        let outcome = if goal.is_met() { "met" } else { "**missed**" };
        [goal.measure.clone(), format!("{} {}", goal.bound, goal.unit), goal.written_figure(), outcome.to_owned()]
    });
    let columns = ["measure", "goal", "median (min–max)", ""];
    vec!["## Goals".to_owned(), summary, table(&columns, rows, Align::Right)]
}

/// The alignment of all columns but the first.
#[derive(Clone, Copy)]
enum Align {
    Left,
    Right,
}

fn table<Row>(columns: &[impl AsRef<str>], rows: impl IntoIterator<Item = Row>, align: Align) -> String
where
    Row: IntoIterator<Item = String>,
{
    let line = |cells: Vec<String>| {
        // A bar would end the cell, even between backticks.
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', r"\|")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule = (0..columns.len()).map(|column| match align {
        Align::Right if column > 0 => "---:".to_owned(),
        _ => "---".to_owned(),
    });
    let header = columns.iter().map(|column| column.as_ref().to_owned()).collect();
    let mut lines = vec![line(header), line(rule.collect())];
    lines.extend(rows.into_iter().map(|row| line(row.into_iter().collect())));
    lines.join("\n")
}
