//! The audit of the runs of handlers.

use std::{collections::HashMap, time::Duration};

use uuid::Uuid;

use super::{Evidence, Promise, Violation};
use crate::{
    journal::{Run, UnprotectedRun},
    operation::Variant,
};

/// Finds the runs that began although the handler of another call with their key ran, or after a client had the response.
pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Violation> {
    let mut by_key: HashMap<Uuid, Vec<&Run>> = HashMap::new();
    for run in &evidence.entries.runs {
        by_key.entry(run.key).or_default().push(run);
    }
    let mut violations = Vec::new();
    for operation in evidence.operations {
        let Some(runs) = by_key.get_mut(&operation.key) else { continue };
        runs.sort_by_key(|run| run.begun);
        let response = first_response(evidence, operation.number);
        let may_begin =
            |run: &Run| is_unprotected(evidence, run) || evidence.rules.may_begin_late(run, &evidence.entries.faults);
        for (place, run) in runs.iter().enumerate().filter(|(_, run)| !may_begin(run)) {
            let mut broken = |what: String| {
                let promise = Promise::NothingBeside;
                violations.push(Violation { operation: Some(operation.number), promise, what });
            };
            if let Some(other) = runs[..place].iter().find(|other| runs_beside(evidence, other, run)) {
                broken(format!("its handler began on server {} while it ran on server {}", run.server, other.server));
            }
            if response.is_some_and(|response| response < run.begun) {
                broken(format!("its handler began on server {} after a client had a response", run.server));
            }
        }
    }
    violations
}

/// When a client first had a response to the operation's own request.
fn first_response(evidence: &Evidence<'_>, operation: u32) -> Option<Duration> {
    let asked = evidence.entries.attempts.iter().filter(|attempt| attempt.variant == Variant::Asked);
    let responses = asked.filter(|attempt| attempt.operation == operation).filter_map(|attempt| {
        let (at, outcome) = attempt.ended.as_ref()?;
        outcome.acknowledgement().map(|_| *at)
    });
    responses.min()
}

/// Whether a run began while another had its key. PostgreSQL may have ended the other one's transaction, if something has happened to its
/// server meanwhile. Reservations of servers that are paused are kept: the policy refuses to run such calls again.
fn runs_beside(evidence: &Evidence<'_>, other: &Run, run: &Run) -> bool {
    other.ended.is_some_and(|ended| run.begun < ended)
        && !is_unprotected(evidence, other)
        && !evidence.rules.may_lose_transactions(other, run.begun, &evidence.entries.faults)
}

fn is_unprotected(evidence: &Evidence<'_>, run: &Run) -> bool {
    let is_it =
        |other: &UnprotectedRun| (other.server, other.key) == (run.server, Some(run.key)) && other.asked <= run.begun;
    evidence.entries.unprotected.iter().any(is_it)
}
