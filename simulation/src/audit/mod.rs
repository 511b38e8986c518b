//! Decides whether the promises of docs/guarantees.md were kept. The only evidence is what happened outside of the servers: effects, and
//! the answers that clients got. Nothing here knows of leases, tokens or records.
//!
//! | promise | broken if | file |
//! |---|---|---|
//! | nothing happens twice | an operation has more than one effect, and neither its policy with a fault, nor its retention allows it | `effects` |
//! | servers with the Go interceptor are calls as others | an effect follows one of theirs, or a handler runs while they have the key | `go` |
//! | a key has one outcome | a client hears of another run than one of which a client heard before, or of an earlier one | `replays` |
//! | a replay says that it is one | a first answer is of a run that served another attempt | `replays` |
//! | a final answer is final | a handler runs after a client was told of a response, or of a final error, that is to be kept | `runs` |
//! | calls of a key run one after the other | a handler begins while another one with its key runs that has not lost it | `runs` |
//! | every handler ends | one goes on although its time is up | `runs` |
//! | no handler is cut off | its own process drops it in the middle, its time is not up, and its client has not left, or that is nothing to it | `runs` |
//! | nothing is left of a failure | a transactional handler fails, and its effect is there | `runs` |
//! | nothing is left of a call whose client went | a transactional handler's effect is there although its client went before it ended, and it was to be rolled back then | `runs` |
//! | a lost lease is told | a handler is told of it, and it has it | `runs` |
//! | nobody acts without a user | a handler runs for a caller who is not authenticated | `runs` |
//! | an expired key does not run | a handler runs under a key that is older than its retention, and they are to be refused | `runs` |
//! | a record tells the truth | in the end, one has another run than the one that is there, or reserves a key, or is missing | `records` |
//! | an acknowledged effect stays | a client was told of a run whose effect is not there | `answers` |
//! | an error has its cause | it is of no run that ended so, or of the network, and nothing was wrong there | `errors` |
//! | an error tells the truth | the client's layer says that an operation has failed, and its effect was on the way | `answers` |
//! | a replay ends with its record | a client was told of a run whose record has expired | `answers` |
//! | another request is no retry | an answer is of a run of another procedure | `answers` |
//! | a status tells the truth | an answer says that the work behind it has ended before it has, or that it goes on long after its end, though the status could be read | `statuses` |
//! | nobody sees another's data | an answer has another owner's or another operation's text | `answers` |
//! | nothing unexpected | an answer is one that no client of this service can expect | `answers`, `refusals` |
//! | an outcome is known | it is said to be unknown, and there was no reason | `refusals` |
//! | a refusal has its cause | the store is said to be away, or a limit reached, or a server stopping, and none is | `refusals` |
//! | waiting has an end | a call that runs no handler is answered late, and nothing hindered it | `waits` |
//! | a key is free when its call is over | a key is said to be in progress, or is reserved, and no call can have it | `waits`, `holds` |
//! | a handler has its key | a handler begins or runs in reserved mode, and the lease of its key has ended, or another call may reserve it | `runs`, `holds` |
//! | one user never has everything | the handlers of one user have all transactions of a process | `limits` |
//! | the last crowd is served | when all is over, a server runs fewer transactions at once than it has, or more, or turns a call away | `limits` |
//! | no key is stuck | an operation gets no final answer when all faults are over | `leftovers` |
//! | what is sealed is not in the open | a server that seals records a response or an error that can be read, or a request by its plain hash | `secrets` |
//! | a destroyed key opens nothing | a client is told of a record whose key all servers have known to be destroyed when it asked | `secrets` |
//! | nothing is left | calls, connections, locks or transactions are held when all servers have been shut down, a call goes on after that, or a connection goes back to its pool in a transaction | `leftovers` |
//! | a journal keeps its word | as `../journal.rs` says | `journals` |
//! | nothing panics | something other than a handler that is to panic has done so | `leftovers` |

mod answers;
mod effects;
mod errors;
mod excuses;
mod go;
mod holds;
mod journals;
mod leftovers;
mod limits;
mod records;
mod refusals;
mod replays;
mod runs;
mod secrets;
mod statuses;
#[cfg(test)]
mod tests;
mod waits;

use std::{cell::RefCell, fmt};

use uuid::Uuid;

use self::excuses::Excuses;
use crate::{
    database::Effect,
    ledger::{Evidence, HandlerRun},
    plan::{Plan, Procedure},
    sometimes::Counts,
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

/// The judgement of a run.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The promises that were broken.
    pub violations: Vec<Violation>,
    /// How often each excuse was used.
    pub excuses: Counts,
}

/// Judges a run.
pub fn audit(plan: &Plan, evidence: &Evidence, effects: &[Effect]) -> Verdict {
    let is_committed = |(number, run): (usize, &HandlerRun)| match plan.operation(run.operation).procedure {
        Procedure::Send => run.effect.is_some(),
        Procedure::Enter | Procedure::Insert => effects.iter().any(|effect| effect.call == number as u64),
    };
    let committed = evidence.runs.iter().enumerate().map(is_committed).collect();
    let committed_at = effects.iter().map(|effect| (effect.call, effect.time)).collect();
    let excuses = Excuses { plan, evidence, committed: committed_at, uses: RefCell::default() };
    let mut audit = Audit { plan, evidence, excuses, committed, violations: Vec::new() };
    audit.effects();
    audit.runs();
    audit.records();
    audit.answers();
    audit.statuses();
    audit.replays();
    audit.waits();
    audit.holds();
    audit.limits();
    audit.last_crowd();
    audit.go();
    audit.secrets();
    audit.leftovers();
    audit.journals();
    Verdict { violations: audit.violations, excuses: audit.excuses.uses.into_inner() }
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
        (operation.owner(), operation.stored)
    }
}
