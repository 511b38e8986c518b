use std::time::Duration;

use super::{Report, Setting, escape};
use crate::section::{Section, Table};

/// The whole report, beginning with what matters most: the goals.
pub(super) fn of(report: &Report) -> String {
    let mut blocks = vec![
        "# Benchmarks".to_owned(),
        "What the layer costs, against what a user would use instead. Made by the command below, not by hand; \
         [`benches/README.md`](../benches/README.md) says what is measured, and how to read the figures."
            .to_owned(),
    ];
    blocks.push(setting(report));
    blocks.extend(goals(report));
    blocks.extend(report.sections.iter().flat_map(section));
    blocks.join("\n\n") + "\n"
}

fn setting(report: &Report) -> String {
    let Setting { command, date, commit, rust, processor, memory, system, load } = &report.setting;
    // Whole seconds are enough.
    let took = humantime::format_duration(Duration::from_secs(report.took.as_secs()));
    let rows = [
        ["command", &format!("`{command}`")],
        ["date", date],
        ["took", &took.to_string()],
        ["commit", commit],
        ["compiler", rust],
        ["processor", processor],
        ["memory", memory],
        ["system", system],
        ["load before", load],
    ];
    table(&["", ""], rows.iter().map(|row| row.map(escape::text)), Align::Left)
}

fn goals(report: &Report) -> Vec<String> {
    let (all, missed) = (report.goals().count(), report.missed().count());
    if all == 0 {
        return Vec::new();
    }
    let mut blocks = vec!["## Goals".to_owned()];
    blocks.push(match missed {
        0 => format!("All {all} are met."),
        _ => format!("{} of {all} are met, **{missed} missed**.", all - missed),
    });
    let rows = report.goals().map(|goal| {
        let came_of_it = if goal.is_met() { "met" } else { "**missed**" };
        let bound = escape::text(&format!("{} {}", goal.bound, goal.unit));
        [escape::text(&goal.measure), bound, goal.written_figure(), came_of_it.to_owned()]
    });
    blocks.push(table(&["measure", "goal", "median (min–max)", ""], rows, Align::Right));
    let limits = report.missed().map(|goal| {
        let limit = goal.limit.unwrap_or("it is not known yet what the limit is.");
        format!("- **{}**: {limit}", escape::text(&goal.measure))
    });
    let limits: Vec<_> = limits.collect();
    if !limits.is_empty() {
        blocks.push(format!("Why those that are missed are missed:\n\n{}", limits.join("\n")));
    }
    blocks
}

fn section(section: &Section) -> Vec<String> {
    let mut blocks = vec![format!("## {}", escape::text(section.title)), section.text.trim().to_owned()];
    for Table { caption, columns, rows } in &section.tables {
        blocks.push(format!("**{}**", escape::text(caption)));
        let rows = rows.iter().map(|row| row.iter().map(|cell| escape::text(cell)));
        let columns: Vec<_> = columns.iter().map(|column| escape::text(column)).collect();
        blocks.push(table(&columns, rows, Align::Right));
    }
    blocks
}

/// How all columns of a table but the first are aligned.
#[derive(Clone, Copy)]
enum Align {
    Left,
    Right,
}

/// Of cells that are Markdown.
fn table<Row>(columns: &[impl AsRef<str>], rows: impl IntoIterator<Item = Row>, align: Align) -> String
where
    Row: IntoIterator<Item = String>,
{
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let rule = (0..columns.len()).map(|column| match align {
        Align::Right if column > 0 => "---:".to_owned(),
        _ => "---".to_owned(),
    });
    let header = columns.iter().map(|column| column.as_ref().to_owned()).collect();
    let mut lines = vec![line(header), line(rule.collect())];
    lines.extend(rows.into_iter().map(|row| line(row.into_iter().collect())));
    lines.join("\n")
}
