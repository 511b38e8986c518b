//! The file that tells how promises were broken.

use std::{collections::BTreeMap, fmt::Write as _, fs, io, path::PathBuf, time::Duration};

use crate::{
    auditor::Violation,
    journal::{Attempt, Blackout, Fault, Purpose},
    operation::{Operation, Variant},
    plan::Plan,
    trial::Trial,
};

/// The number of operations whose story is written; further ones are only listed.
const MOST: usize = 50;

/// The number of log lines in a story; further lines are left out.
const MOST_LINES: usize = 60;

/// The longest fault that is shown as one event, without an end of its own.
const INSTANT: Duration = Duration::from_millis(1);

/// Writes the story of every operation for which a promise was broken, and returns the file's path.
pub(crate) fn write_stories(plan: &Plan, trial: &Trial) -> io::Result<PathBuf> {
    let path = plan.args.report.join(format!("chaos-{}-{}.txt", plan.seed.0, trial.mode));
    let mut text = format!("What went wrong with seed {} in {} mode.\n", plan.seed.0, trial.mode);
    let mut by_operation: BTreeMap<Option<u32>, Vec<&Violation>> = BTreeMap::new();
    for violation in &trial.verdict.violations {
        by_operation.entry(violation.operation).or_default().push(violation);
    }
    for (number, (operation, violations)) in by_operation.into_iter().enumerate() {
        let operation = operation.and_then(|operation| plan.operations.get(operation as usize));
        let mut line = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        match operation {
            Some(operation) => line(&title(operation)),
            None => line("\nNo operation"),
        }
        for violation in violations {
            line(&format!("  {}: {}", violation.promise, violation.what));
        }
        if let Some(operation) = operation.filter(|_| number < MOST) {
            line(&story(plan, trial, operation));
        }
    }
    fs::write(&path, text)?;
    Ok(path)
}

fn title(operation: &Operation) -> String {
    let Operation { number, key, kind, user, .. } = operation;
    format!("\nOperation {number}, {} ({kind:?} of {user:?}), key {key}", operation.name(Variant::Asked))
}

/// The events of an operation and of the faults near it, in order.
fn story(plan: &Plan, trial: &Trial, operation: &Operation) -> String {
    let of_operation = |attempt: &&Attempt| attempt.operation == operation.number;
    let attempts: Vec<_> = trial.entries.attempts.iter().filter(of_operation).collect();
    let mut events: Vec<(Duration, String)> = Vec::new();
    for attempt in &attempts {
        let Attempt { purpose, server, variant, .. } = attempt;
        let what = if *variant == Variant::Changed { "another request with the key" } else { "call" };
        events.push((attempt.begun, format!("{what} to server {server} ({purpose:?})")));
        if let Some((ended, outcome)) = &attempt.ended {
            let after = *ended - attempt.begun;
            events.push((*ended, format!("{what} to server {server} ended, after {after:.3?}: {outcome}")));
        }
    }
    for run in trial.entries.runs.iter().filter(|run| run.key == operation.key) {
        events.push((run.begun, format!("its handler begins on server {}", run.server)));
        events.extend(run.ended.map(|ended| (ended, format!("its handler has ended on server {}", run.server))));
    }
    for run in trial.entries.unprotected.iter().filter(|run| run.key == Some(operation.key)) {
        events.push((run.asked, format!("server {} asks the store", run.server)));
        events.push((run.ran, format!("RUNS UNPROTECTED on server {} ({})", run.server, run.cause)));
    }
    let near = |at: Duration| near(plan, &attempts, at);
    for fault in trial.entries.faults.iter().filter(|fault| near(fault.begun) || near(fault.ended)) {
        if concerns(fault, &attempts) {
            events.push((fault.begun, format!("FAULT: {}, {}", fault.kind, fault.whom)));
            if fault.ended - fault.begun > INSTANT {
                events.push((fault.ended, format!("FAULT over: {}, {}", fault.kind, fault.whom)));
            }
        }
    }
    let met = |slot| attempts.iter().any(|attempt| attempt.server.slot == slot);
    let blackouts = trial.entries.blackouts.iter().filter(|it| met(it.slot) && (near(it.begun) || near(it.ended)));
    for Blackout { slot, begun, ended } in blackouts {
        events.push((*begun, format!("the database cannot be asked on the way of server {slot}")));
        events.push((*ended, format!("the database can be asked again on the way of server {slot}")));
    }
    let lines = trial.entries.lines.iter().filter(|line| met(line.server.slot) && near(line.at));
    events.extend(lines.take(MOST_LINES).map(|line| (line.at, format!("  server {}: {}", line.server, line.text))));

    events.sort_by_key(|(at, _)| *at);
    events.into_iter().fold(String::new(), |mut story, (at, what)| {
        // Writing to a `String` does not fail.
        let _ = writeln!(story, "  {:10.3} s  {what}", at.as_secs_f64());
        story
    })
}

/// Whether a time is during one of the calls, or at most a lease after it. The last retry does not count.
fn near(plan: &Plan, attempts: &[&Attempt], at: Duration) -> bool {
    attempts.iter().filter(|attempt| attempt.purpose != Purpose::Final).any(|attempt| {
        let ended = attempt.ended.as_ref().map_or(attempt.begun, |(ended, _)| *ended);
        attempt.begun <= at && at <= ended + plan.args.lease
    })
}

/// Whether a fault affected a server that was called. A client that hangs up affects only its own operation, and its
/// calls show that.
fn concerns(fault: &Fault, attempts: &[&Attempt]) -> bool {
    !fault.kind.is_of_clients() && attempts.iter().any(|attempt| fault.whom.has(attempt.server))
}
