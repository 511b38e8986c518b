//! What there is at one moment: the record, the lock, the attempts, and what history remembers of them.

use crate::scenario::{Chaos, Mode, Scenario};

pub(crate) type AttemptId = usize;

/// A fencing token, by the attempt that made it.
pub(crate) type Token = AttemptId;

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) record: Option<Record>,
    /// The advisory lock, by the attempt whose transaction holds it.
    pub(crate) lock: Option<AttemptId>,
    pub(crate) attempts: Vec<Attempt>,
    /// The misfortunes that may still happen.
    pub(crate) left: Chaos,
    pub(crate) history: History,
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let attempt = |(id, mode): (AttemptId, Mode)| Attempt {
            stage: Stage::Waiting,
            token: (mode != Mode::GoInterceptor).then_some(id),
            transaction: Transaction::None,
            stray_claim: false,
            answer: None,
            fenced: false,
            saw: None,
            life: None,
            effect: None,
        };
        Self {
            record: None,
            lock: None,
            attempts: scenario.servers.iter().map(|server| server.mode).enumerate().map(attempt).collect(),
            left: scenario.chaos,
            history: History { lives: vec![Life::default()], ..History::default() },
        }
    }

    /// The life of the record that is now, or of the next one to come.
    pub(crate) fn life(&self) -> usize {
        self.history.lives.len() - 1
    }

    pub(crate) fn life_mut(&mut self) -> &mut Life {
        self.history.lives.last_mut().expect("there is always one")
    }

    /// The attempt whose effect is there, as a truthful reconciler sees it.
    pub(crate) fn effect(&self) -> Option<AttemptId> {
        self.attempts.iter().position(|attempt| attempt.effect == Some(self.life()))
    }

    pub(crate) fn effects_in(&self, life: usize) -> usize {
        self.attempts.iter().filter(|attempt| attempt.effect == Some(life)).count()
    }

    /// Whether the reservation is believed.
    pub(crate) fn lease_runs(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.lease_runs)
    }

    /// Nobody works, no transaction is open, no lease runs: only a new call changes anything now.
    pub(crate) fn is_at_rest(&self) -> bool {
        let rests = |attempt: &Attempt| !attempt.stage.is_at_work() && attempt.transaction == Transaction::None;
        self.attempts.iter().all(rests) && !self.lease_runs()
    }
}

/// The row. A completed record has an outcome, a reservation has none.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Record {
    /// `None` where FUN-15 reserved it.
    pub(crate) token: Option<Token>,
    pub(crate) lease_runs: bool,
    /// How often it was taken over (the column `attempts`, less one).
    pub(crate) takeovers: u8,
    pub(crate) outcome_unknown: bool,
    pub(crate) outcome: Option<Outcome>,
    /// Not a column: whose it is in truth, whatever the tokens say.
    pub(crate) owner: AttemptId,
    /// Not a column: how often it had been taken over when it was abandoned last.
    pub(crate) abandoned: Option<u8>,
}

impl Record {
    pub(crate) fn reserved(token: Option<Token>, owner: AttemptId) -> Self {
        Self { token, lease_runs: true, takeovers: 0, outcome_unknown: false, outcome: None, owner, abandoned: None }
    }
}

/// How a handler ended for good.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Outcome {
    FinalError(AttemptId),
    Response(AttemptId),
}

impl Outcome {
    /// The attempt whose handler it was.
    pub(crate) fn by(self) -> AttemptId {
        match self {
            Self::FinalError(id) | Self::Response(id) => id,
        }
    }
}

/// One call of the client, and the server process that handles it.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) stage: Stage,
    /// What it sends as its token; `None` of FUN-15.
    pub(crate) token: Option<Token>,
    pub(crate) transaction: Transaction,
    /// A claim of this attempt is still under way on a connection that it has lost.
    pub(crate) stray_claim: bool,
    pub(crate) answer: Option<Answer>,
    /// Its settlement was refused.
    pub(crate) fenced: bool,
    /// While its transaction is open: the reservation that there was when it began, by whose it was and how often it
    /// had been taken over (the columns `id` and `token` tell that); `None` where there was none.
    pub(crate) saw: Option<(AttemptId, u8)>,
    /// Not known to it: the life of the record in which it got the key, or its answer.
    pub(crate) life: Option<usize>,
    /// Not known to it: its effect is committed, for this life of the record.
    pub(crate) effect: Option<usize>,
}

impl Attempt {
    pub(crate) fn end(&mut self, answer: Answer) {
        self.stage = Stage::Ended;
        self.answer.get_or_insert(answer);
    }
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The client has not sent it yet.
    Waiting,
    /// Only with a guard left out: the reconciler was asked too early, and this is what it saw.
    Peeked(Option<AttemptId>),
    /// Only with a guard left out: no record was seen, and one is about to be inserted.
    Looked,
    /// The claim was sent and its answer lost; it is about to be asked again.
    Claiming,
    /// The key was taken over, and the reconciler is about to be asked (or, with a guard left out, saw this before).
    Reconciling(Option<Option<AttemptId>>),
    /// The handler runs.
    Handling,
    /// The handler has ended; the outcome is about to be sent, or sent again.
    Settling(Settlement),
    /// The answer of a COMMIT is lost, and is about to be looked up (or, with a guard left out, was, and this seen).
    LookingUp(Outcome, Option<bool>),
    Ended,
    Crashed,
}

impl Stage {
    /// A server process is busy with it.
    pub(crate) fn is_at_work(self) -> bool {
        !matches!(self, Self::Waiting | Self::Ended | Self::Crashed)
    }
}

/// What is to become of the key.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Settlement {
    Abandon,
    Complete(Outcome),
    Release,
}

/// The transaction of a transactional attempt, as the database sees it.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// Not begun, or ended and answered, or ended with nobody to hear of it.
    None,
    Open,
    /// COMMIT has arrived. Whatever becomes of the client, the database goes through with it.
    Committing(Outcome),
    /// It is committed, and the answer is on its way.
    Committed,
    /// Somebody else's record was there: it is rolled back, and the answer is on its way.
    Refused,
}

impl Transaction {
    pub(crate) fn is_running(self) -> bool {
        matches!(self, Self::Open | Self::Committing(_))
    }
}

/// What the client is told. Whether it still listens changes nothing.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The handler failed after its effect was committed.
    Doubtful,
    /// The handler failed, and nothing was done.
    Failed,
    /// The COMMIT was lost, looked up and found.
    FoundCommitted(Outcome),
    InFlight,
    OutcomeUnknown,
    /// The outcome of its own handler.
    Own(Outcome),
    /// What the reconciler found.
    Reconciled(Outcome),
    Replayed(Outcome),
    /// The COMMIT was lost, looked up and not found: nothing was done.
    RolledBack,
    /// Nobody knows; to be tried again with the same key.
    Unavailable,
}

impl Answer {
    /// The outcome that the client is given, however it was come by.
    pub(crate) fn outcome(self) -> Option<Outcome> {
        match self {
            Self::FoundCommitted(outcome)
            | Self::Own(outcome)
            | Self::Reconciled(outcome)
            | Self::Replayed(outcome) => Some(outcome),
            _ => None,
        }
    }
}

/// What no server knows, and the properties need.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct History {
    /// One for each time the key was used up to the expiry of its record; the last is now.
    pub(crate) lives: Vec<Life>,
    /// An abandoned call was run again without a reconciler's word.
    pub(crate) reran_abandoned: bool,
    /// A completed record was changed or deleted before it expired.
    pub(crate) rewritten: bool,
    /// A reservation was changed with the token of another attempt than the one that held it.
    pub(crate) trespassed: bool,
    /// The attempt that held the key was told that it is in flight.
    pub(crate) waited_for_itself: bool,
}

#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Life {
    /// The clock ended a lease.
    pub(crate) lease_ended: bool,
    /// The outcome that was recorded.
    pub(crate) recorded: Option<Outcome>,
}
