//! The verdict on clients that die.

use std::{fmt, time::Duration};

use clap::ValueEnum as _;

use super::{
    client::Ends,
    front::{CallsOnWire, Front},
    step::ClientStep,
};
use crate::{
    auditor::{Rows, Tally},
    journal::Entries,
    mode::Mode,
    named::name,
    operation::Variant,
    plan::Plan,
    report::MarkdownTable,
    step::Step,
};

/// The ends of operations that have not failed.
const OK: [&str; 4] = ["ok", "replayed", "resumed", "before its client died"];

/// The audit of the operations of clients that die.
#[derive(Debug)]
pub(crate) struct Audit {
    mode: Mode,
    /// The steps of servers that no call passed.
    pub(crate) missed: Vec<Step>,
    broken: [(&'static str, usize); 7],
    table: MarkdownTable,
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
        let count = |is: &dyn Fn(u32) -> bool| (0..plan.args.operations).filter(|number| is(*number)).count();
        let failed = ends.ended.iter().filter(|(how, _)| !OK.contains(&how.as_str())).map(|(_, count)| count).sum();
        let ended: usize = ends.ended.values().sum();
        let broken = [
            ("operations that happened twice", count(&|number| effects(number) > 1)),
            ("operations that were lost", count(&|number| effects(number) == 0)),
            ("operations without an end", plan.args.operations as usize - ended),
            ("operations that failed", failed),
            (
                "operations that ended without an answer of a server",
                count(&|number| seen.get(&number).is_none_or(|calls| !calls.is_answered)),
            ),
            (
                "operations with other than one key on the wire",
                count(&|number| seen.get(&number).is_none_or(|calls| calls.keys.len() != 1)),
            ),
            ("clients with a journal that is not empty", plan.args.clients as usize - ends.empty),
        ];
        let tally = Tally::new(entries, mode);
        let mut table = table(plan, took, &tally, ends, front, seen);
        broken.iter().for_each(|(name, count)| table.promise(name, *count));
        // Servers that do not die are not asked whether they have passed each step.
        let missed = if mode == Mode::Transactional { tally.missed } else { Vec::new() };
        Self { mode, missed, broken, table }
    }

    /// Whether all promises were kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.broken.iter().all(|(_, count)| *count == 0)
    }
}

fn table(plan: &Plan, took: Duration, tally: &Tally, ends: &Ends, front: &Front, seen: &CallsOnWire) -> MarkdownTable {
    let mut table = MarkdownTable::default();
    table.row("seed", plan.seed.0);
    table.row("operations", plan.args.operations);
    table.row("clients, servers", format_args!("{}, {}", plan.args.clients, plan.args.servers));
    table.row("time", humantime::format_duration(Duration::from_secs(took.as_secs().max(1))));
    table.strong("clients killed", ends.deaths.values().sum::<usize>());
    let at_steps = ClientStep::value_variants().iter().map(|step| format!("at {}", name(*step)));
    for place in at_steps.chain(["at a random moment".to_owned()]) {
        table.row(&format!("client killed {place}"), ends.deaths.get(&place).unwrap_or(&0));
    }
    table.row("entries that a new life has found", ends.found);
    table.row("operations that were not written before, and begun again", ends.again);
    table.strong("faults of servers, database and connections", tally.faults.values().sum::<usize>());
    for (kind, count) in &tally.faults {
        table.row(&kind.to_string(), count);
    }
    let distorted = front.distorted();
    table.strong("answers that a proxy distorted", distorted.values().sum::<usize>());
    for (distortion, count) in &distorted {
        table.row(&name(*distortion), count);
    }
    table.strong("calls on the wire", seen.values().map(|calls| calls.attempts).sum::<usize>());
    table.row("operations with several", seen.values().filter(|calls| calls.attempts > 1).count());
    table.strong("operations ended", ends.ended.values().sum::<usize>());
    for (how, count) in &ends.ended {
        table.row(&format!("ended: {how}"), count);
    }
    table
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.write(format_args!("Clients that die, {} mode", self.mode), self.is_kept(), f)
    }
}
