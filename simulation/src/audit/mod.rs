//! Decides whether the promises of docs/guarantees.md were kept. The only evidence is what happened outside of the servers: effects, and
//! the answers that clients got. Nothing here knows of leases, tokens or records.
//!
//! | promise | broken if |
//! |---|---|
//! | nothing happens twice | an operation has more than one effect, and neither its policy, nor a fault, nor its retention allows it |
//! | an acknowledged effect stays | a client was told of a run whose effect is not there |
//! | an error tells the truth | the client's layer says that an operation has failed, and its effect was on the way |
//! | a replay ends with its record | a client was told of a run whose record has expired |
//! | nobody sees another's data | an answer has another owner's or another operation's text |
//! | an outcome is known | it is said to be unknown, and there was no reason |
//! | no key is stuck | an operation gets no final answer when all faults are over |
//! | nothing is left | calls, connections, locks or transactions are held when all servers have been shut down, or a call goes on after that |
//! | nothing panics | something other than a handler that is to panic has done so |
//! | nothing unexpected | an answer is one that no client of this service can expect |

mod answers;
mod effects;
mod excuses;
mod leftovers;

use std::fmt;

use uuid::Uuid;

use self::excuses::Excuses;
use crate::{
    database::Effect,
    ledger::{Evidence, HandlerRun},
    plan::{Plan, Procedure},
};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, by the table at the top of this file.
    pub promise: &'static str,
    /// The evidence, in words.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.seen)
    }
}

/// Returns what was broken.
pub fn audit(plan: &Plan, evidence: &Evidence, effects: &[Effect]) -> Vec<Violation> {
    let is_committed = |(number, run): (usize, &HandlerRun)| match plan.operation(run.operation).procedure {
        Procedure::Send => run.effect.is_some(),
        Procedure::Enter => effects.iter().any(|effect| effect.call == number as u64),
    };
    let committed = evidence.runs.iter().enumerate().map(is_committed).collect();
    let excuses = Excuses { plan, evidence };
    let mut audit = Audit { plan, evidence, excuses, committed, violations: Vec::new() };
    audit.effects();
    audit.answers();
    audit.leftovers();
    audit.violations
}

struct Audit<'a> {
    plan: &'a Plan,
    evidence: &'a Evidence,
    excuses: Excuses<'a>,
    /// Of each run, whether its effect is there in the end.
    committed: Vec<bool>,
    violations: Vec<Violation>,
}

impl Audit<'_> {
    fn broken(&mut self, promise: &'static str, seen: String) {
        self.violations.push(Violation { promise, seen });
    }

    /// Returns the owner and the key of an operation. A hostile client has more than one operation under a key.
    fn key(&self, operation: usize) -> (Uuid, Uuid) {
        let operation = self.plan.operation(operation);
        (operation.owner(), operation.key)
    }
}
