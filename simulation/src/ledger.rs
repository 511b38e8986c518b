//! Everything that happened, as an observer sees who stands outside of all processes: the evidence of the audit.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tonic::Code;
use tonic_idempotency::rejection::Reason;

use crate::{plan::End, world::Process};

/// The evidence of one run of the simulation. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Evidence>>);

/// The contents of a ledger.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The runs of handlers, in the order in which they began.
    pub runs: Vec<HandlerRun>,
    /// The answers that clients got, in order.
    pub answers: Vec<Answer>,
    /// The number of attempts that have begun.
    pub attempts: usize,
    /// Panics that no plan wants.
    pub panics: usize,
    /// How often the handler of an operation ran.
    pub counts: BTreeMap<usize, usize>,
    /// Processes that were shut down well, with no call left, and when.
    pub stopped: Vec<(Process, Duration)>,
    /// Calls and connections that were left when all had ended.
    pub leftovers: Vec<String>,
}

/// One run of a handler.
#[derive(Clone, Debug)]
pub struct HandlerRun {
    /// The operation whose message it got.
    pub operation: usize,
    /// The attempt whose request it got.
    pub attempt: usize,
    /// The process.
    pub process: Process,
    /// When it began.
    pub began: Duration,
    /// Whether the other system will have it, or has it.
    pub is_sent: bool,
    /// When its effect was there: of a reserved call when the other system had it, of a transactional one when the statement had succeeded.
    pub effect: Option<Duration>,
    /// When it ended, and how; of a run whose process was killed, never.
    pub ended: Option<(Duration, End)>,
}

/// An answer, or the end of a client's patience.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The operation.
    pub operation: usize,
    /// The attempt, counted over all clients.
    pub attempt: usize,
    /// When the request was sent.
    pub sent: Duration,
    /// When the client knew.
    pub got: Duration,
    /// Its contents.
    pub says: Says,
}

/// The contents of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// It is done: by this run, for this owner, with this text; or replayed.
    Done {
        /// The number of the run.
        run: usize,
        /// Whose it is.
        owner: String,
        /// The text that it has entered.
        text: String,
        /// Whether the answer says that it is a replay.
        is_replay: bool,
    },
    /// It is refused by the layer.
    Refused(Reason),
    /// An error of the handler, of the network, or of something else.
    Failed(Code, String),
    /// The client's layer says that it does not know.
    Unresolved,
    /// The client hung up before there was an answer.
    Nothing,
}

impl Ledger {
    /// Locks the evidence.
    pub fn lock(&self) -> MutexGuard<'_, Evidence> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a handler begins. Returns the number of the run, and how often the operation ran before.
    pub fn begin(&self, (operation, attempt): (usize, usize), process: Process, began: Duration) -> (usize, usize) {
        let mut evidence = self.lock();
        evidence.runs.push(HandlerRun {
            operation,
            attempt,
            process,
            began,
            is_sent: false,
            effect: None,
            ended: None,
        });
        let number = evidence.runs.len() - 1;
        let count = evidence.counts.entry(operation).or_default();
        *count += 1;
        (number, *count - 1)
    }

    /// Notes that the effect of a run is on its way to the other system.
    pub fn send(&self, run: usize) {
        self.lock().runs[run].is_sent = true;
    }

    /// Notes the effect of a run.
    pub fn effect(&self, run: usize, at: Duration) {
        self.lock().runs[run].effect = Some(at);
    }

    /// Notes the end of a run.
    pub fn end(&self, run: usize, at: Duration, end: End) {
        self.lock().runs[run].ended = Some((at, end));
    }
}
