use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{fault::FaultKind, operation::Variant, outcome::Outcome};

/// All that the harness did and saw, in one place, with the times at which it did. Times count from its beginning.
#[derive(Debug)]
pub(crate) struct Journal {
    begun: Instant,
    entries: Mutex<Entries>,
}

/// What a journal has in it.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// In the order in which they began.
    pub(crate) attempts: Vec<Attempt>,
    /// In the order in which they ended.
    pub(crate) faults: Vec<Fault>,
    /// Operations whose client gave up on them.
    pub(crate) given_up: HashSet<u32>,
    /// What servers logged, from warnings up: the last lines.
    pub(crate) lines: VecDeque<Line>,
    /// Servers that ended without having been told to.
    pub(crate) unexpected_ends: Vec<(Duration, ServerId)>,
    /// Starts of servers that came to nothing, as they do while the database is away.
    pub(crate) failed_starts: usize,
    pub(crate) starts: usize,
    /// Paused servers that went on when another had answered what they were at.
    pub(crate) takeovers: usize,
    /// Operations whose clients are done with them.
    pub(crate) done: u32,
}

impl Entries {
    /// The operations that some client has a response for.
    pub(crate) fn acknowledged(&self) -> BTreeSet<u32> {
        let acknowledged = |attempt: &&Attempt| attempt.outcome().is_some_and(|it| it.acknowledgement().is_some());
        self.attempts.iter().filter(acknowledged).map(|attempt| attempt.operation).collect()
    }
}

/// One life of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServerId {
    /// Which of the servers.
    pub(crate) slot: usize,
    /// How often it was started, this time included.
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
    /// When it ended, and how; `None` while it runs.
    pub(crate) ended: Option<(Duration, Outcome)>,
}

impl Attempt {
    /// How it ended; `None` while it runs.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.ended.as_ref().map(|(_, outcome)| outcome)
    }
}

/// Why a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To have it done: the first try, or one after another failed.
    Ask,
    /// At the same time as another one, to fill the pool of a server.
    Burst,
    /// To see, when all is over, what a retry gets.
    Final,
    /// At the same time as another one, for the sooner answer.
    Hedge,
    /// Once more, although it was acknowledged.
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

/// Whom a fault befell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// All servers.
    All,
    /// One life of one server.
    Server(ServerId),
    /// Whichever server was in a slot: what stands between it and the database.
    Slot(usize),
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

/// What a server logged.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: Duration,
    pub(crate) server: ServerId,
    pub(crate) text: String,
}

/// A call in the journal that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running(usize);

impl Journal {
    /// More lines of the servers than this are not kept.
    const MOST_LINES: usize = 50_000;

    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), entries: Mutex::default() }
    }

    /// The time since the beginning.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What is in it. Nobody may wait for anything while they look.
    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins.
    pub(crate) fn begin(&self, operation: u32, variant: Variant, purpose: Purpose, server: ServerId) -> Running {
        let begun = self.now();
        let mut entries = self.entries();
        entries.attempts.push(Attempt { operation, variant, purpose, server, begun, ended: None });
        Running(entries.attempts.len() - 1)
    }

    /// A call ends.
    pub(crate) fn end(&self, running: Running, outcome: Outcome) {
        let now = self.now();
        if let Some(attempt) = self.entries().attempts.get_mut(running.0) {
            attempt.ended = Some((now, outcome));
        }
    }

    /// A fault has happened, from `begun` until now.
    pub(crate) fn fault(&self, kind: FaultKind, whom: Whom, begun: Duration) {
        let ended = self.now();
        self.entries().faults.push(Fault { kind, whom, begun, ended });
    }

    /// A server logged something.
    pub(crate) fn line(&self, server: ServerId, text: String) {
        let at = self.now();
        let mut entries = self.entries();
        if entries.lines.len() == Self::MOST_LINES {
            entries.lines.pop_front();
        }
        entries.lines.push_back(Line { at, server, text });
    }

    /// The operations that a server is being asked for.
    pub(crate) fn asked_of(&self, server: ServerId) -> HashSet<u32> {
        let entries = self.entries();
        let running = entries.attempts.iter().filter(|attempt| attempt.server == server && attempt.ended.is_none());
        running.map(|attempt| attempt.operation).collect()
    }

    /// Those of these operations that another server has answered for good since `time`.
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
