//! The state at one moment: the record, the lock, the attempts, and the history.

use crate::scenario::{Chaos, Mode, Scenario};

pub(crate) type AttemptId = usize;

/// A fencing token, as the attempt that made it.
pub(crate) type Token = AttemptId;

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) record: Option<Record>,
    /// The advisory lock, as the attempt whose transaction holds it.
    pub(crate) lock: Option<AttemptId>,
    pub(crate) attempts: Vec<Attempt>,
    /// The servers cannot reach the database. What has reached it is still carried out.
    pub(crate) is_away: bool,
    /// The number of connections that the transactions of other users hold.
    pub(crate) others: [u8; 2],
    /// The failures that may still happen.
    pub(crate) left: Chaos,
    pub(crate) history: History,
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let attempt = |(id, mode): (AttemptId, Mode)| Attempt {
            stage: Stage::Waiting,
            token: (mode != Mode::GoInterceptor).then_some(id),
            transaction: Transaction::None,
            claim_may_stand: false,
            queued: false,
            stray_claim: false,
            stray_commit: false,
            in_conflict: false,
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
            is_away: false,
            others: [0; 2],
            left: scenario.chaos,
            history: History { lives: vec![Life::default()], ..History::default() },
        }
    }

    /// The index of the record's current life, or of the next one if there is no record.
    pub(crate) fn life(&self) -> usize {
        self.history.lives.len() - 1
    }

    pub(crate) fn life_mut(&mut self) -> &mut Life {
        self.history.lives.last_mut().expect("there is always a life")
    }

    /// The attempt whose effect is committed, as a truthful reconciler sees it.
    pub(crate) fn effect(&self) -> Option<AttemptId> {
        self.attempts.iter().position(|attempt| attempt.effect == Some(self.life()))
    }

    pub(crate) fn effects_in(&self, life: usize) -> usize {
        self.attempts.iter().filter(|attempt| attempt.effect == Some(life)).count()
    }

    /// Whether the lease of the reservation is running.
    pub(crate) fn lease_runs(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.lease_runs)
    }

    /// Whether only a new call can change anything: no server works, no transaction is open, no lease runs. (A foreign
    /// reservation has none.)
    pub(crate) fn is_at_rest(&self) -> bool {
        let rests = |attempt: &Attempt| !attempt.stage.is_at_work() && attempt.transaction == Transaction::None;
        let is_foreign = self.record.as_ref().is_some_and(Record::is_foreign);
        self.attempts.iter().all(rests) && (!self.lease_runs() || is_foreign) && self.others == [0; 2]
    }
}

/// The row. A completed record has an outcome; a reservation has none.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Record {
    /// `None` if the Go interceptor reserved it.
    pub(crate) token: Option<Token>,
    pub(crate) lease_runs: bool,
    /// The number of takeovers (the column `attempts`, less one).
    pub(crate) takeovers: u8,
    pub(crate) outcome_unknown: bool,
    pub(crate) outcome: Option<Outcome>,
    /// Not a column: the attempt that really holds it, whatever the tokens are.
    pub(crate) owner: AttemptId,
    /// Not a column: the number of takeovers before it was abandoned last.
    pub(crate) abandoned: Option<u8>,
    /// Not a column: its holder has given it back or abandoned it.
    pub(crate) let_go: bool,
}

impl Record {
    pub(crate) fn reserved(token: Option<Token>, owner: AttemptId) -> Self {
        Self {
            token,
            lease_runs: true,
            takeovers: 0,
            outcome_unknown: false,
            outcome: None,
            owner,
            abandoned: None,
            let_go: false,
        }
    }

    /// Whether it is a reservation of the Go interceptor.
    pub(crate) fn is_foreign(&self) -> bool {
        self.token.is_none() && self.outcome.is_none()
    }
}

/// The final outcome of a handler.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Outcome {
    FinalError(AttemptId),
    Response(AttemptId),
}

impl Outcome {
    /// The attempt whose handler had this outcome.
    pub(crate) fn by(self) -> AttemptId {
        match self {
            Self::FinalError(id) | Self::Response(id) => id,
        }
    }
}

/// One call of the client, with the server process that handles it.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) stage: Stage,
    /// The token that it sends; `None` for the Go interceptor.
    pub(crate) token: Option<Token>,
    pub(crate) transaction: Transaction,
    /// One of its claims was sent, and none was answered.
    pub(crate) claim_may_stand: bool,
    /// Its claim waits in its server's queue for the next batch.
    pub(crate) queued: bool,
    /// A claim of this attempt is still under way on a lost connection.
    pub(crate) stray_claim: bool,
    /// Whether such a claim is in its COMMIT, for which no call waits any more. Only with a guard left out.
    pub(crate) stray_commit: bool,
    /// Its transaction lost a conflict.
    pub(crate) in_conflict: bool,
    pub(crate) answer: Option<Answer>,
    /// Its disposition was refused.
    pub(crate) fenced: bool,
    /// While its transaction is open: the reservation that existed when it began, as its holder and its number of
    /// takeovers (identified by the columns `id` and `token`); `None` if there was none.
    pub(crate) saw: Option<(AttemptId, u8)>,
    /// Not known to the attempt: the life of the record in which it got the key, or its answer.
    pub(crate) life: Option<usize>,
    /// Not known to the attempt: the life of the record for which its effect is committed.
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
    /// The reconciler was asked too early and saw this. Only with a guard left out.
    Peeked(Option<AttemptId>),
    /// No record was seen, and one is about to be inserted, or the lock to be taken. Only with a guard left out.
    Looked,
    /// The claim failed, or waits for a batch. It is about to be sent, or repeated, or the probe to be sent.
    Claiming,
    /// The key was taken over, and the reconciler is about to be asked. With a guard left out, it was asked before and
    /// saw this.
    Reconciling(Option<Option<AttemptId>>),
    /// The handler runs.
    Handling,
    /// The handler runs, and the server does not know of a reservation.
    Unprotected,
    /// The handler has ended; the outcome is about to be sent, or sent again.
    Settling(Disposition),
    /// The answer to a COMMIT was lost, and the COMMIT is about to be looked up. With a guard left out, it was looked
    /// up before, with this result.
    LookingUp(Outcome, Option<bool>),
    Ended,
    Crashed,
}

impl Stage {
    /// Whether a server process is busy with it.
    pub(crate) fn is_at_work(self) -> bool {
        !matches!(self, Self::Waiting | Self::Ended | Self::Crashed)
    }
}

/// The consequence of a handler's end for the key.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Disposition {
    Abandon,
    Complete(Outcome),
    Release,
}

/// The transaction of a transactional attempt, as the database sees it.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// Not begun; or ended, and the server knows it or is gone.
    None,
    Open,
    /// COMMIT has arrived. The database carries it out even if the client is gone.
    Committing(Outcome),
    /// The COMMIT succeeded, and its answer is on the way.
    Committed,
    /// The COMMIT met another call's record and was rolled back; its answer is on the way.
    Refused,
}

impl Transaction {
    pub(crate) fn is_running(self) -> bool {
        matches!(self, Self::Open | Self::Committing(_))
    }
}

/// The answer to the client. It makes no difference whether the client still waits.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The transaction lost a conflict and was rolled back; the client may retry.
    Conflict,
    /// The handler failed after its effect was committed.
    Doubtful,
    /// The handler failed, and nothing was done.
    Failed,
    /// The answer to COMMIT was lost; a lookup found the record.
    FoundCommitted(Outcome),
    InFlight,
    /// Refused before the handler ran: the store was unavailable, overloaded or misconfigured.
    NotRun,
    OutcomeUnknown,
    /// The outcome of its own handler.
    Own(Outcome),
    /// The outcome that the reconciler found.
    Reconciled(Outcome),
    Replayed(Outcome),
    /// The answer to COMMIT was lost; a lookup found no record, so nothing was done.
    RolledBack,
    /// The outcome is not known; the client may retry with the same key.
    Unavailable,
}

impl Answer {
    /// The outcome in the answer, from whatever source.
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

/// Facts that no server knows, but the properties need.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct History {
    /// One life for each use of the key, up to the expiry of its record. The last is the current one.
    pub(crate) lives: Vec<Life>,
    /// A handler ran unprotected although the store could be asked.
    pub(crate) proceeded_though_reachable: bool,
    /// An abandoned call was run again without a reconciler's permission.
    pub(crate) reran_abandoned: bool,
    /// A completed record was changed or deleted before it expired.
    pub(crate) rewritten: bool,
    /// A claim met a pool full of transactions, or a transaction met one whose permits another user held alone.
    pub(crate) starved: bool,
    /// A call was refused because of another call's row.
    pub(crate) refused_for_another: bool,
    /// A batch claimed for two calls with one key, and one of them got it.
    pub(crate) shared: bool,
    /// A reservation was changed with the token of an attempt that did not hold it.
    pub(crate) trespassed: bool,
    /// An attempt was told that the key is in flight, though its lease had ended.
    pub(crate) waited_for_nothing: bool,
    /// The attempt that held the key was told that the key is in flight.
    pub(crate) waited_for_itself: bool,
    /// A response that is recorded was not replayed, because its status was slow.
    pub(crate) withheld: bool,
}

#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Life {
    /// The clock ended a lease.
    pub(crate) lease_ended: bool,
    /// The outcome that was recorded.
    pub(crate) recorded: Option<Outcome>,
    /// The number of handlers that ran unprotected, by policy, while their claim did not stand, or had taken over.
    pub(crate) unheld_runs: u8,
}
