//! The report of a run, in Markdown: what was measured, the machine, and the goals.

use std::{fmt, path::Path, process::Command, time::Duration};

/// A section of the report. All texts are Markdown.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    /// The measurement and its method.
    pub(crate) text: String,
    /// The answer to "what will it cost me?", if this part has it.
    pub(crate) summary: Option<String>,
    pub(crate) tables: Vec<String>,
    pub(crate) goals: Vec<Goal>,
}

/// A goal, and the figure that was measured.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub(crate) measure: String,
    pub(crate) bound: Bound,
    pub(crate) figure: Spread,
    /// The unit of the figure, or the base of a ratio: `KiB`, `× plain SHA-256`.
    pub(crate) unit: String,
    /// The explanation of a missed goal, and the cost of passing it.
    pub(crate) limit: Option<&'static str>,
}

/// The bound of a goal, for the median.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// The median of a figure that was measured in several rounds, and the extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Goal {
    /// A goal whose limit is not known.
    pub(crate) fn new(measure: impl Into<String>, bound: Bound, figure: Spread, unit: impl Into<String>) -> Self {
        Self { measure: measure.into(), bound, figure, unit: unit.into(), limit: None }
    }

    pub(crate) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(bound) => self.figure.median >= bound,
            Bound::AtMost(bound) => self.figure.median <= bound,
        }
    }

    fn row(&self) -> [String; 4] {
        let outcome = if self.is_met() { "met" } else { "**missed**" };
        [self.measure.clone(), format!("{} {}", self.bound, self.unit), self.written_figure(), outcome.to_owned()]
    }

    fn written_figure(&self) -> String {
        self.figure.with_decimals(if self.figure.median.fract() == 0.0 { 0 } else { 3 })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
        }
    }
}

/// Writes the goal and its figure in one line.
impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, bound, unit, .. } = self;
        write!(f, "{measure}: {} instead of {bound} {unit}", self.written_figure())
    }
}

impl Spread {
    /// Returns the spread of at least one figure.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<_> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (last, middle) = (figures.len() - 1, figures.len() / 2);
        Self { median: f64::midpoint(figures[last / 2], figures[middle]), min: figures[0], max: figures[last] }
    }

    /// Returns the spread of the ratios of figures from the same rounds.
    pub(crate) fn of_ratios(figures: &[f64], to: &[f64]) -> Self {
        assert_eq!(figures.len(), to.len(), "measured in the same rounds");
        Self::of(figures.iter().zip(to).map(|(figure, to)| figure / to))
    }

    /// Writes `1.23 (1.10–1.40)`; a figure that was the same in all rounds has no range.
    pub(crate) fn with_decimals(self, decimals: usize) -> String {
        let Self { median, min, max } = self;
        if min == max {
            return format!("{median:.decimals$}");
        }
        format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})")
    }
}

/// Writes a time: `826.00µs`.
pub(crate) fn seconds(seconds: f64) -> String {
    format!("{:.2?}", Duration::from_secs_f64(seconds))
}

/// Writes a table whose columns are figures, but for the first one.
pub(crate) fn table<const COLUMNS: usize>(
    caption: &str,
    columns: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let line = |cells: &[String; COLUMNS]| format!("\n| {} |", cells.join(" | "));
    let rule = std::array::from_fn(|column| if column == 0 { "---" } else { "---:" }.to_owned());
    let rows = rows.into_iter().map(|row| line(&row)).collect::<String>();
    format!("**{caption}**\n{}{}{rows}", line(&columns.map(str::to_owned)), line(&rule))
}

/// Describes the machine, its load, the compiler and the commit. To be called before the first measurement.
pub(crate) fn setting(root: &Path) -> Vec<[String; 2]> {
    const COMMANDS: [[&str; 2]; 7] = [
        ["date", "date --utc +%FT%TZ"],
        ["commit", "git describe --always --dirty --abbrev=12"],
        ["compiler", "rustc --version"],
        ["processor", "lscpu | sed -n 's/^Model name: *//p'; echo \"($(uname -m)), threads: $(nproc)\""],
        ["memory", "free --human | sed -n 's/^Mem: *\\([^ ]*\\).*/\\1/p'"],
        ["system", ". /etc/os-release; echo \"$PRETTY_NAME, kernel $(uname -r)\""],
        ["load before", "cut -d ' ' -f 1 /proc/loadavg"],
    ];
    let answer = |command| {
        let output = Command::new("sh").args(["-c", command]).current_dir(root).output().ok()?;
        let lines = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        (output.status.success() && !lines.is_empty()).then_some(lines)
    };
    let called = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    let features = if cfg!(feature = "drivers") { " --features drivers" } else { "" };
    let command =
        format!("`{}`", format!("cargo run{profile} -p benchmarks{features} -- {called}").trim_end_matches(" -- "));
    let found = COMMANDS.map(|[name, command]| [name.to_owned(), answer(command).unwrap_or("unknown".to_owned())]);
    [vec![["command".to_owned(), command]], found.into()].concat()
}

const INTRODUCTION: &str = "\
The command below has made this page, and all figures are from its run. [`benches/README.md`](../benches/README.md) says what is \
measured, and how to read the figures: ratios are taken within a round, in which the things that are compared take turns, and `1.23 (1.10–1.40)` \
is the median of the rounds with the least and the greatest. Each section below has the method and the results of one part. The goals, met \
and missed, are [at the end](#goals), with the limits of those that are missed.";

/// Writes the whole report: what the layer costs, how it was measured, the results, and the goals.
pub(crate) fn markdown(setting: Vec<[String; 2]>, sections: &[Section]) -> String {
    let mut blocks = vec!["# Benchmarks".to_owned()];
    for summary in sections.iter().filter_map(|section| section.summary.clone()) {
        blocks.extend(["## What will it cost me, and what would my own code cost me?".to_owned(), summary]);
    }
    blocks.extend(["## How it was measured", INTRODUCTION].map(str::to_owned));
    blocks.push(table("The setting", ["", ""], setting));
    for Section { title, text, tables, .. } in sections {
        blocks.extend([format!("## {title}"), text.trim().to_owned()]);
        blocks.extend(tables.iter().cloned());
    }
    let goals: Vec<_> = sections.iter().flat_map(|section| &section.goals).collect();
    let missed: Vec<_> = goals.iter().filter(|goal| !goal.is_met()).collect();
    let caption = format!("{} of {} are met", goals.len() - missed.len(), goals.len());
    let columns = ["measure", "goal", "median (min–max)", ""];
    blocks.extend(["## Goals".to_owned(), table(&caption, columns, goals.iter().map(|goal| goal.row()))]);
    // Each limit once.
    let mut limits: Vec<_> = missed.iter().map(|goal| goal.limit.unwrap_or("Not known.")).collect();
    limits.sort_unstable();
    limits.dedup();
    for limit in limits {
        let of = missed.iter().filter(|goal| goal.limit.unwrap_or("Not known.") == limit);
        let of: Vec<_> = of.map(|goal| format!("**{}** ({})", goal.measure, goal.unit)).collect();
        blocks.push(format!("What limits {}: {limit}", of.join("; ")));
    }
    blocks.join("\n\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(bound: Bound, figures: [f64; 3]) -> Goal {
        Goal { limit: Some("Sorting."), ..Goal::new("speed", bound, Spread::of(figures), "× bare") }
    }

    #[test]
    fn a_goal_is_met_at_its_bound_and_missed_beyond() {
        for (bound, median, is_met) in [
            (Bound::AtLeast(0.9), 0.9, true),
            (Bound::AtLeast(0.9), 0.8999, false),
            (Bound::AtMost(3.0), 3.0, true),
            (Bound::AtMost(3.0), 3.0001, false),
            (Bound::AtLeast(0.9), f64::NAN, false),
            (Bound::AtMost(3.0), f64::NAN, false),
        ] {
            assert_eq!(goal(bound, [median; 3]).is_met(), is_met, "{median} {bound}");
        }
    }

    #[test]
    fn a_spread_is_the_median_between_the_extremes() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).with_decimals(1), "2.5 (1.0–4.0)");
        assert_eq!(Spread::of([7.0]).with_decimals(0), "7");
        assert_eq!(Spread::of_ratios(&[1.0, 4.0, 9.0], &[2.0, 4.0, 3.0]), Spread { median: 1.0, min: 0.5, max: 3.0 });
    }

    #[test]
    fn a_report_has_its_costs_its_sections_its_goals_and_their_limits() {
        let section = Section {
            title: "Hash",
            text: "\nText.\n".to_owned(),
            summary: Some("Costs".to_owned()),
            tables: vec![table("By shape", ["message", "MB/s"], [["map", "1234"].map(str::to_owned)])],
            goals: vec![goal(Bound::AtLeast(0.9), [0.95, 0.9, 1.0]), goal(Bound::AtMost(3.0), [3.0, 3.45, 4.0])],
        };
        let markdown = markdown(vec![["commit", "abc"].map(str::to_owned)], &[section]);
        for block in [
            "# Benchmarks\n\n## What will it cost me, and what would my own code cost me?\n\nCosts\n\n## How",
            "\n| commit | abc |\n",
            "\n\n## Hash\n\nText.\n\n**By shape**\n\n| message | MB/s |\n| --- | ---: |\n| map | 1234 |\n\n## Goals\n\n**1 of 2 are met**\n",
            "\n| speed | ≥ 0.9 × bare | 0.950 (0.900–1.000) | met |\n| speed | ≤ 3 × bare | 3.450 (3.000–4.000) | **missed** |\n",
            "\n\nWhat limits **speed** (× bare): Sorting.\n",
        ] {
            assert!(markdown.contains(block), "{block} in {markdown}");
        }
    }

    #[test]
    fn the_setting_of_this_machine_is_known() {
        for [name, answer] in setting(Path::new(env!("CARGO_MANIFEST_DIR"))) {
            assert_ne!(answer, "unknown", "{name}");
        }
    }
}
