//! The log of everything that the harness did and saw.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use uuid::Uuid;

use crate::{clock, fault::FaultKind, operation::Variant, outcome::Outcome, step::Step};

/// Everything that the harness did and saw, with times. Times count from the journal's creation.
#[derive(Debug)]
pub(crate) struct Journal {
    /// On the clock that all processes share.
    begun: Duration,
    entries: Mutex<Entries>,
}

/// The contents of a journal.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// In the order of their beginnings.
    pub(crate) attempts: Vec<Attempt>,
    /// The times at which a witness beside a server could not ask the database.
    pub(crate) blackouts: Vec<Blackout>,
    /// In the order of their ends.
    pub(crate) faults: Vec<Fault>,
    /// Operations that their client gave up.
    pub(crate) given_up: HashSet<u32>,
    /// The last lines that servers logged, from warnings up.
    pub(crate) lines: VecDeque<Line>,
    /// The runs of handlers that servers reported, in the order of the reports.
    pub(crate) runs: Vec<Run>,
    /// The steps that calls passed on servers.
    pub(crate) passed: BTreeSet<Step>,
    /// The unprotected runs that servers reported.
    pub(crate) unprotected: Vec<UnprotectedRun>,
    /// Servers that ended without an order to.
    pub(crate) unexpected_ends: Vec<(Duration, ServerId)>,
    /// Starts of servers that failed, as they do while the database is away.
    pub(crate) failed_starts: usize,
    pub(crate) starts: usize,
    /// Paused servers that went on after another server had answered their operations.
    pub(crate) takeovers: usize,
    /// The number of operations that their clients have finished.
    pub(crate) done: u32,
}

impl Entries {
    /// The operations for which a client has a response.
    pub(crate) fn acknowledged(&self) -> BTreeSet<u32> {
        let acknowledged = |attempt: &&Attempt| attempt.outcome().is_some_and(|it| it.acknowledgement().is_some());
        self.attempts.iter().filter(acknowledged).map(|attempt| attempt.operation).collect()
    }
}

/// One life of one server: from a start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServerId {
    /// The server's number.
    pub(crate) slot: usize,
    /// The number of its starts, this one included.
    pub(crate) life: u32,
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.life)
    }
}

/// A call to a server.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) operation: u32,
    pub(crate) variant: Variant,
    pub(crate) purpose: Purpose,
    pub(crate) server: ServerId,
    pub(crate) begun: Duration,
    /// The time and the kind of its end; `None` while it runs.
    pub(crate) ended: Option<(Duration, Outcome)>,
}

impl Attempt {
    /// The end of the call; `None` while it runs.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.ended.as_ref().map(|(_, outcome)| outcome)
    }
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To have the operation done: the first try, or a retry after a failure.
    Ask,
    /// To be under way during an outage.
    Burst,
    /// To see what a retry gets when all faults are over.
    Final,
    /// To get an answer sooner, together with another at the same time.
    Hedge,
    /// To see what a retry gets after the operation was acknowledged.
    LookBack,
}

/// A fault that happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) whom: Whom,
    pub(crate) begun: Duration,
    pub(crate) ended: Duration,
}

/// The servers that a fault affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// All servers.
    All,
    /// One life of one server.
    Server(ServerId),
    /// The server that was in a slot at the time: the fault affected its connections to the database.
    Slot(usize),
}

impl Whom {
    /// Whether a fault affected this server.
    pub(crate) fn has(self, server: ServerId) -> bool {
        match self {
            Self::All => true,
            Self::Server(other) => other == server,
            Self::Slot(slot) => slot == server.slot,
        }
    }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all servers"),
            Self::Server(server) => write!(f, "server {server}"),
            Self::Slot(slot) => write!(f, "server {slot}"),
        }
    }
}

/// A time at which a witness beside a server could not ask the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blackout {
    /// The server's number.
    pub(crate) slot: usize,
    /// The last time before it at which the database had answered.
    pub(crate) begun: Duration,
    /// The time of the next answer, or the end of the last failure so far.
    pub(crate) ended: Duration,
}

/// A run of the handler of a call with a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) server: ServerId,
    pub(crate) key: Uuid,
    pub(crate) begun: Duration,
    /// When the handler ended; `None` if the server ended first, or the call was cut off.
    pub(crate) ended: Option<Duration>,
}

/// A call with a key whose handler ran unprotected.
#[derive(Clone, Debug)]
pub(crate) struct UnprotectedRun {
    pub(crate) server: ServerId,
    /// The call's key; `None` if it is not known.
    pub(crate) key: Option<Uuid>,
    pub(crate) cause: String,
    /// When the store was asked.
    pub(crate) asked: Duration,
    /// When the handler began.
    pub(crate) ran: Duration,
}

/// A line of a server's log.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: Duration,
    pub(crate) server: ServerId,
    pub(crate) text: String,
}

/// A call in the journal that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptNumber(usize);

impl Journal {
    /// The number of log lines that are stored; older ones are dropped.
    const MOST_LINES: usize = 50_000;

    pub(crate) fn new() -> Self {
        Self { begun: clock::now(), entries: Mutex::default() }
    }

    /// The time since the journal's creation.
    pub(crate) fn now(&self) -> Duration {
        self.at(clock::now())
    }

    /// The contents, locked. Do not await anything while holding the guard.
    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the beginning of a call.
    pub(crate) fn begin(&self, operation: u32, variant: Variant, purpose: Purpose, server: ServerId) -> AttemptNumber {
        let begun = self.now();
        let mut entries = self.entries();
        entries.attempts.push(Attempt { operation, variant, purpose, server, begun, ended: None });
        AttemptNumber(entries.attempts.len() - 1)
    }

    /// Notes the end of a call.
    pub(crate) fn end(&self, attempt: AttemptNumber, outcome: Outcome) {
        let now = self.now();
        if let Some(attempt) = self.entries().attempts.get_mut(attempt.0) {
            attempt.ended = Some((now, outcome));
        }
    }

    /// Notes a fault that has happened, from `begun` until now.
    pub(crate) fn fault(&self, kind: FaultKind, whom: Whom, begun: Duration) {
        let ended = self.now();
        self.entries().faults.push(Fault { kind, whom, begun, ended });
    }

    /// The time of the journal at a moment of the clock that all processes share.
    pub(crate) fn at(&self, moment: Duration) -> Duration {
        moment.saturating_sub(self.begun)
    }

    /// Notes that a handler begins.
    pub(crate) fn run(&self, server: ServerId, key: Uuid, begun: Duration) {
        self.entries().runs.push(Run { server, key, begun, ended: None });
    }

    /// Notes that the last handler with this key on a server has ended.
    pub(crate) fn run_ended(&self, server: ServerId, key: Uuid, ended: Duration) {
        let mut entries = self.entries();
        let mut runs = entries.runs.iter_mut().rev();
        if let Some(run) = runs.find(|run| (run.server, run.key) == (server, key)) {
            run.ended = Some(ended);
        }
    }

    /// Notes that a witness could not ask the database since `begun`. Returns the place of the entry.
    pub(crate) fn blackout(&self, slot: usize, begun: Duration) -> usize {
        let ended = self.now();
        let mut entries = self.entries();
        entries.blackouts.push(Blackout { slot, begun, ended });
        entries.blackouts.len() - 1
    }

    /// Notes that a blackout has lasted until now.
    pub(crate) fn blackout_lasts(&self, place: usize) {
        let now = self.now();
        if let Some(blackout) = self.entries().blackouts.get_mut(place) {
            blackout.ended = now;
        }
    }

    /// Notes a line of a server's log.
    pub(crate) fn line(&self, server: ServerId, text: String) {
        let at = self.now();
        let mut entries = self.entries();
        if entries.lines.len() == Self::MOST_LINES {
            entries.lines.pop_front();
        }
        entries.lines.push_back(Line { at, server, text });
    }

    /// The operations of the calls that a server is handling.
    pub(crate) fn asked_of(&self, server: ServerId) -> HashSet<u32> {
        let entries = self.entries();
        let running = entries.attempts.iter().filter(|attempt| attempt.server == server && attempt.ended.is_none());
        running.map(|attempt| attempt.operation).collect()
    }

    /// The number of these operations that got a final answer from another server after `time`.
    pub(crate) fn answered_since(&self, time: Duration, operations: &HashSet<u32>, by_other_than: ServerId) -> usize {
        let entries = self.entries();
        let answered: HashSet<u32> = entries
            .attempts
            .iter()
            .filter(|attempt| attempt.server != by_other_than && operations.contains(&attempt.operation))
            .filter(|attempt| attempt.ended.as_ref().is_some_and(|(at, outcome)| *at > time && outcome.is_final()))
            .map(|attempt| attempt.operation)
            .collect();
        answered.len()
    }
}
