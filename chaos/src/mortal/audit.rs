//! The verdict on clients that die.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{
    client::Ends,
    front::{Front, Seen},
    step::ClientStep,
};
use crate::{
    auditor::{Rows, Tally},
    journal::Entries,
    mode::Mode,
    named::Named as _,
    operation::Variant,
    plan::Plan,
    step::Step,
};

/// The audit of the operations of clients that die.
#[derive(Debug)]
pub(crate) struct Audit {
    mode: Mode,
    /// The steps of servers that no call passed.
    pub(crate) missed: Vec<Step>,
    broken: Vec<(&'static str, usize)>,
    rows: Vec<(String, String)>,
}

impl Audit {
    pub(super) fn new(
        plan: &Plan,
        mode: Mode,
        took: Duration,
        entries: &Entries,
        ends: &Ends,
        front: &Front,
        rows: &Rows,
    ) -> Self {
        let seen = &front.seen();
        let effects = |number: u32| rows.of(number, Variant::Asked).len();
        let count = |is: &dyn Fn(u32) -> bool| (0..plan.of_clients).filter(|number| is(*number)).count();
        let keys = |number: &u32| seen.get(number).map_or(0, |calls| calls.keys.len());
        let ok = ["ok", "replayed", "resumed", "before its client died"];
        let failed = ends.ended.iter().filter(|(how, _)| !ok.contains(&how.as_str())).map(|(_, count)| count).sum();
        let ended: usize = ends.ended.values().sum();
        let broken = vec![
            ("operations that happened twice", count(&|number| effects(number) > 1)),
            ("operations that were lost", count(&|number| effects(number) == 0)),
            ("operations without an end", plan.of_clients as usize - ended),
            ("operations that failed", failed),
            (
                "operations that ended without an answer of a server",
                count(&|number| !seen.get(&number).is_some_and(|calls| calls.is_answered)),
            ),
            ("operations with other than one key on the wire", count(&|number| keys(&number) != 1)),
            ("clients with a journal that is not empty", plan.clients as usize - ends.empty),
        ];
        let tally = Tally::new(entries, mode);
        // Servers that do not die are not asked whether they have passed each step.
        let missed = if mode == Mode::Transactional { tally.missed.clone() } else { Vec::new() };
        Self { mode, missed, broken, rows: table(plan, took, &tally, ends, front, seen) }
    }

    /// Whether all promises were kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.broken.iter().all(|(_, count)| *count == 0)
    }
}

fn table(plan: &Plan, took: Duration, tally: &Tally, ends: &Ends, front: &Front, seen: &Seen) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: &dyn fmt::Display| rows.push((name.to_owned(), value.to_string()));
    row("seed", &plan.seed.0);
    row("operations", &plan.of_clients);
    row("clients, servers", &format_args!("{}, {}", plan.clients, plan.servers));
    row("time", &humantime::format_duration(Duration::from_secs(took.as_secs().max(1))));
    row("**clients killed**", &format_args!("**{}**", ends.deaths.values().sum::<usize>()));
    let at_steps = ClientStep::ALL.iter().map(|step| format!("at {}", step.name()));
    for place in at_steps.chain(["at a random moment".to_owned()]) {
        row(&format!("client killed {place}"), ends.deaths.get(&place).unwrap_or(&0));
    }
    row("entries that a new life has found", &ends.found);
    row("operations that were not written before, and begun again", &ends.again);
    row(
        "**faults of servers, database and connections**",
        &format_args!("**{}**", tally.faults.values().sum::<usize>()),
    );
    for (kind, count) in &tally.faults {
        row(&kind.to_string(), count);
    }
    let distorted = front.distorted();
    row("**answers that a proxy distorted**", &format_args!("**{}**", distorted.values().sum::<usize>()));
    for (distortion, count) in &distorted {
        row(distortion.name(), count);
    }
    let attempts: usize = seen.values().map(|calls| calls.attempts).sum();
    let several = seen.values().filter(|calls| calls.attempts > 1).count();
    row("**calls on the wire**", &format_args!("**{attempts}**"));
    row("operations with several", &several);
    row("**operations ended**", &format_args!("**{}**", ends.ended.values().sum::<usize>()));
    let how: BTreeMap<_, _> = ends.ended.iter().collect();
    for (how, count) in how {
        row(&format!("ended: {how}"), count);
    }
    rows
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broken =
            self.broken.iter().map(|(name, count)| (format!("**{name}** (must be 0)"), format!("**{count}**")));
        let rows: Vec<_> = self.rows.iter().cloned().chain(broken).collect();
        let width = |of: fn(&(String, String)) -> usize| rows.iter().map(of).max().unwrap_or_default();
        let (names, values) = (width(|row| row.0.chars().count()), width(|row| row.1.chars().count()));
        writeln!(f, "## Clients that die, {} mode\n", self.mode)?;
        writeln!(f, "| {:names$} | {:>values$} |", "", "")?;
        writeln!(f, "|{:-<left$}|{:->right$}:|", "", "", left = names + 2, right = values + 1)?;
        for (name, value) in &rows {
            writeln!(f, "| {name:names$} | {value:>values$} |")?;
        }
        write!(f, "\n{}", if self.is_kept() { "All promises were kept." } else { "**PROMISES WERE BROKEN.**" })
    }
}
