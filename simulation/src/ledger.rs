//! Everything that happened, as an observer sees who stands outside of all processes: the evidence of the audit.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tonic::Code;
use tonic_idempotency::{rejection::Reason, status::OutboxStatus};
use uuid::Uuid;

use crate::{
    database::{Lost, Outcome, StoredRecord, Trouble},
    kept::Kept,
    plan::{End, Kind, Role},
    world::Process,
};

/// The evidence of one run of the simulation. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Evidence>>);

/// The contents of a ledger.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The runs of handlers, in the order in which they began.
    pub runs: Vec<HandlerRun>,
    /// The runs of Go servers, in the order in which they began.
    pub go_runs: Vec<GoRun>,
    /// The answers that clients got, in order.
    pub answers: Vec<Answer>,
    /// The operations of the attempts that have begun, by the numbers of the attempts.
    pub attempts: Vec<usize>,
    /// The calls that have arrived at a process, in order.
    pub calls: Vec<Call>,
    /// The faults that have struck, in order.
    pub faults: Vec<Strike>,
    /// Panics that no plan wants.
    pub panics: usize,
    /// The journals of clients, as far as they are known, by their operations.
    pub journals: BTreeMap<usize, Kept>,
    /// The statuses that the work behind what runs have created has reached, in order.
    pub statuses: Vec<StatusChange>,
    /// How often the handler of an operation ran.
    pub counts: BTreeMap<usize, usize>,
    /// The records, when all has been answered.
    pub records: Vec<StoredRecord>,
    /// The owners and keys that were reserved, at times.
    pub reserved: Vec<(Duration, BTreeSet<(Uuid, Uuid)>)>,
    /// Processes that were shut down well, with no call left, and when.
    pub stopped: Vec<(Process, Duration)>,
    /// The outcomes that were committed, in order.
    pub outcomes: Vec<Outcome>,
    /// The roles of processes.
    pub roles: Vec<(Process, Role)>,
    /// The scopes in which a server had no key to seal with, and stored no response.
    pub keyless: BTreeSet<u8>,
    /// The owners and keys whose calls the recovery has found to have succeeded.
    pub recovered: BTreeSet<(Uuid, Uuid)>,
    /// The commits that the database has lost.
    pub lost: Lost,
    /// Calls and connections that were left when all had ended.
    pub leftovers: Vec<String>,
}

/// A request that has arrived at a process.
#[derive(Clone, Debug)]
pub struct Call {
    /// The attempt that it belongs to. A client's layer may send more than one request in an attempt.
    pub attempt: usize,
    /// The number of the server.
    pub server: usize,
    /// The process.
    pub process: Process,
    /// When it arrived.
    pub arrived: Duration,
    /// When it was answered, or the process heard that the client has hung up, or was killed.
    pub left: Option<Duration>,
    /// Whether it was answered that another call has the key.
    pub is_behind: bool,
}

/// A status that the work behind what a run has created has reached.
#[derive(Clone, Copy, Debug)]
pub struct StatusChange {
    /// The run.
    pub run: usize,
    /// When it was so.
    pub at: Duration,
    /// The status.
    pub status: OutboxStatus,
}

/// A fault, as it was.
#[derive(Clone, Debug)]
pub struct Strike {
    /// Its kind.
    pub kind: Kind,
    /// The errors and the latency of the database meanwhile, if it is one of these kinds.
    pub trouble: Trouble,
    /// The process that ran on its server.
    pub process: Option<Process>,
    /// When it began.
    pub from: Duration,
    /// When it was over; of a jump, the time to which the clock has jumped.
    pub to: Duration,
}

/// One run of a handler of a Go server, and the time for which it had the key.
#[derive(Clone, Copy, Debug)]
pub struct GoRun {
    /// The operation.
    pub operation: usize,
    /// When it began.
    pub from: Duration,
    /// When it ended.
    pub to: Option<Duration>,
    /// Whether it has its effect.
    pub is_done: bool,
}

/// One run of a handler.
#[derive(Clone, Debug)]
pub struct HandlerRun {
    /// Its number.
    pub number: usize,
    /// The operation whose message it got.
    pub operation: usize,
    /// The attempt whose request it got.
    pub attempt: usize,
    /// How often its operation had run before.
    pub count: usize,
    /// The call that it serves, by its place among the calls.
    pub call: usize,
    /// The process.
    pub process: Process,
    /// When it began.
    pub began: Duration,
    /// Whether its key was reserved then.
    pub had_key: bool,
    /// Whether the other system will have it, or has it.
    pub is_sent: bool,
    /// When its effect was there: of a reserved call when the other system had it, of others when the statement had succeeded.
    pub effect: Option<Duration>,
    /// When it ended, and how; of a run whose process was killed, never.
    pub ended: Option<(Duration, End)>,
    /// When it was cut off in the middle, by its own process.
    pub cut: Option<Duration>,
    /// When it heard that its lease is lost.
    pub lost_lease: Option<Duration>,
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
        /// The status of the work behind it, if the answer says one.
        status: Option<String>,
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

impl Says {
    /// Returns its kind, in words.
    pub fn kind(&self) -> String {
        match self {
            Self::Done { is_replay: false, .. } => "done".to_owned(),
            Self::Done { is_replay: true, .. } => "replayed".to_owned(),
            Self::Refused(reason) => format!("refused, {reason:?}"),
            Self::Failed(code, _) => format!("failed, {code:?}"),
            Self::Unresolved => "unresolved".to_owned(),
            Self::Nothing => "nothing".to_owned(),
        }
    }
}

impl Ledger {
    /// Locks the evidence.
    pub fn lock(&self) -> MutexGuard<'_, Evidence> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a client begins an attempt. Returns its number.
    pub fn attempt(&self, operation: usize) -> usize {
        let attempts = &mut self.lock().attempts;
        attempts.push(operation);
        attempts.len() - 1
    }

    /// Notes that a call has arrived. Returns its place.
    pub fn arrive(&self, call: Call) -> usize {
        let calls = &mut self.lock().calls;
        calls.push(call);
        calls.len() - 1
    }

    /// Notes that a call is answered that another call has its key.
    pub fn is_behind(&self, call: usize) {
        self.lock().calls[call].is_behind = true;
    }

    /// Notes that a call is over, for the network.
    pub fn leave(&self, call: usize, at: Duration) {
        self.lock().calls[call].left = Some(at);
    }

    /// Notes that a fault has struck, and is over.
    pub fn strike(&self, strike: Strike) {
        self.lock().faults.push(strike);
    }

    /// Notes that a handler begins. Returns the number of the run, and how often the operation ran before.
    pub fn begin(
        &self,
        operation: usize,
        call: usize,
        process: Process,
        began: Duration,
        had_key: bool,
    ) -> (usize, usize) {
        let mut evidence = self.lock();
        let attempt = evidence.calls[call].attempt;
        let count = *evidence.counts.get(&operation).unwrap_or(&0);
        let number = evidence.runs.len();
        evidence.runs.push(HandlerRun {
            number,
            operation,
            attempt,
            count,
            call,
            process,
            began,
            had_key,
            is_sent: false,
            effect: None,
            ended: None,
            cut: None,
            lost_lease: None,
        });
        let count = evidence.counts.entry(operation).or_default();
        *count += 1;
        (number, *count - 1)
    }

    /// Notes that a Go server has reserved a key. Returns the number of its run.
    pub fn begin_of_go(&self, operation: usize, from: Duration) -> usize {
        let runs = &mut self.lock().go_runs;
        runs.push(GoRun { operation, from, to: None, is_done: false });
        runs.len() - 1
    }

    /// Notes that a run of a Go server has ended.
    pub fn end_of_go(&self, run: usize, to: Duration, is_done: bool) {
        let run = &mut self.lock().go_runs[run];
        (run.to, run.is_done) = (Some(to), is_done);
    }

    /// Notes that the effect of a run is on its way to the other system.
    pub fn send(&self, run: usize) {
        self.lock().runs[run].is_sent = true;
    }

    /// Notes that a run hears that its lease is lost.
    pub fn lose_lease(&self, run: usize, at: Duration) {
        self.lock().runs[run].lost_lease = Some(at);
    }

    /// Notes the effect of a run.
    pub fn effect(&self, run: usize, at: Duration) {
        self.lock().runs[run].effect = Some(at);
    }

    /// Notes that a run is dropped, which cuts it off unless it has ended.
    pub fn drop_run(&self, run: usize, at: Duration) {
        let run = &mut self.lock().runs[run];
        if run.ended.is_none() {
            run.cut = Some(at);
        }
    }

    /// Notes the end of a run.
    pub fn end(&self, run: usize, at: Duration, end: End) {
        self.lock().runs[run].ended = Some((at, end));
    }
}
