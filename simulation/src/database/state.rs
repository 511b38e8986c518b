//! The contents of the server: rows, effects and sessions, and the frame in which a statement runs: [`State`].

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::Notify, time::Instant};
use tonic_idempotency::store::{RequestHash, Reservation, StoredResponse, memory_transitions::Record};
use uuid::Uuid;

use super::{
    error::SqlError,
    row::Row,
    statement::{Action, Sent},
    stored_row::{Effect, Id, StoredRow},
    transaction::{Progress, Transaction, Work},
    trouble::{Draws, LeftOpen},
};
use crate::world::{BEGINNING, Process, Random, World};

/// `tenant.idempotency_allowances`: of an owner and a server, the records and the time until which they count. The sum of an owner's has the
/// nil server.
pub(super) type Allowances = BTreeMap<(Uuid, Uuid), (i64, Option<Instant>)>;

/// The number of commits that a failover may lose.
const REMEMBERED: usize = 256;

/// The time after which a COMMIT that did not wait for the disk is on it.
const FLUSHED_AFTER: Duration = Duration::from_millis(600);

/// A committed record, for the auditor.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as the columns")]
pub struct StoredRecord {
    pub owner: Uuid,
    pub key: Uuid,
    pub token: Uuid,
    pub procedure: String,
    /// As `tenant.idempotency_state` tells it to a call with another token: `reserved`, `abandoned`, `unknown`, `completed`, `not_stored`,
    /// `failed` or `expired`.
    pub state: &'static str,
    pub attempts: u32,
    /// The first hash of its request.
    pub request: RequestHash,
    /// The response's message, or the error.
    pub response: Option<Bytes>,
    /// The metadata of the response; of one that is sealed, the envelope.
    pub metadata: Option<Bytes>,
    /// How long it still lives, by the database's clock.
    pub expires_in: Duration,
}

/// An outcome that was committed, for the auditor.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The process that has recorded it.
    pub process: Process,
    /// When, since the world began.
    pub at: Duration,
    /// The record.
    pub record: StoredRecord,
}

/// The commits that a failover or a crash has lost.
#[derive(Clone, Debug, Default)]
pub struct Lost {
    /// The calls whose effects were lost.
    pub effects: BTreeSet<u64>,
    /// The owners and keys of rows that went back to an earlier state, when, since the world began, and why.
    pub keys: BTreeMap<(Uuid, Uuid), Vec<(Duration, Loss)>>,
}

/// Why commits are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The server has crashed, or a synchronous standby has taken over: only what did not wait for the disk.
    Crash,
    /// An asynchronous standby has taken over: whatever it had not received.
    FailOver,
}

/// The transactions and locks of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// All sessions, with those that do nothing.
    pub sessions: usize,
    /// Sessions in a transaction.
    pub transactions: usize,
    /// Advisory locks of keys.
    pub advisory_locks: usize,
    /// Rows that were written, and not committed.
    pub row_locks: usize,
    /// Sessions that wait for another.
    pub waiting: usize,
}

impl Open {
    /// Returns whether no session holds anything.
    pub fn is_nothing(&self) -> bool {
        self.transactions + self.advisory_locks + self.row_locks + self.waiting == 0
    }
}

/// How a session ends that its client does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The connection is cut.
    Cut,
    /// The server answers no more, and the client is not told.
    Silent,
    /// The client is told why.
    Told(SqlError),
}

/// A session of the server.
#[derive(Debug)]
pub(super) struct SessionState {
    /// The process of its client; `None` for a test that holds a row.
    pub(super) client: Option<Process>,
    /// The number of the server's process. A pooler changes it.
    pub(super) process: i32,
    pub(super) transaction: Option<Transaction>,
    pub(super) is_standby: bool,
    /// Whether a statement runs.
    pub(super) is_running: bool,
    pub(super) is_canceled: bool,
    /// Whether its COMMIT waits for the disk or a standby: that is neither cancelled nor ended.
    pub(super) is_committing: bool,
    pub(super) ending: Option<Ending>,
    pub(super) waits_for: Option<u64>,
    /// Since when a statement of the store runs.
    pub(super) busy_since: Option<Instant>,
    /// Wakes its task when it is ended or cancelled.
    pub(super) signal: Arc<Notify>,
}

/// Why a statement does not go on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    Error(SqlError),
    /// It needs what another transaction has written.
    Wait(Lock),
}

/// A row or a number that a session's transaction, which began at this time, has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) session: u64,
    begun: Instant,
    id: Id,
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

/// The rows and effects that a commit has changed, to take it back.
#[derive(Debug)]
struct Commit {
    rows: Vec<(Id, Option<StoredRow>)>,
    effects: usize,
    is_asynchronous: bool,
    time: Instant,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) world: World,
    pub(super) rows: BTreeMap<Id, StoredRow>,
    pub(super) effects: Vec<Effect>,
    pub(super) statuses: BTreeMap<String, &'static str>,
    /// The outcomes that were committed, in order.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) allowances: Allowances,
    pub(super) sessions: BTreeMap<u64, SessionState>,
    /// The last commits, the newest last.
    history: VecDeque<Commit>,
    pub(super) lost: Lost,
    /// By how much the clock has jumped ahead of tokio's in all.
    pub(super) ahead: Duration,
    /// By how much it was set back in all.
    pub(super) behind: Duration,
    pub(super) draws: Draws,
    /// For what a crash or a failover leaves open.
    pub(super) random: Random,
    /// The connections that went back to their pools in a transaction, in words.
    pub(super) returned_open: Vec<String>,
    /// Logins are refused until then.
    pub(super) down_until: Option<Instant>,
    /// Whether another server answers as a standby meanwhile.
    pub(super) has_standby: bool,
    next: u64,
}

impl State {
    pub(super) fn new(world: &World) -> Self {
        Self {
            world: world.clone(),
            rows: BTreeMap::new(),
            effects: Vec::new(),
            statuses: BTreeMap::new(),
            outcomes: Vec::new(),
            allowances: Allowances::default(),
            sessions: BTreeMap::new(),
            history: VecDeque::new(),
            lost: Lost::default(),
            ahead: Duration::ZERO,
            behind: Duration::ZERO,
            draws: Draws::new(world),
            random: world.random("database"),
            returned_open: Vec::new(),
            down_until: None,
            has_standby: false,
            next: 1,
        }
    }

    pub(super) fn tell(&self, event: std::fmt::Arguments<'_>) {
        self.world.tell(format_args!("database"), event);
    }

    /// Returns the next number of a session, a process or a row.
    pub(super) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Returns the time of the clock, for what is stored.
    pub(super) fn now(&self) -> Instant {
        Instant::now() + self.ahead - self.behind
    }

    /// Returns what the clock would show without its changes.
    pub(super) fn since_epoch(&self) -> Duration {
        Duration::from_secs(BEGINNING) + self.world.time()
    }

    /// Returns the time of the clock in seconds, as statements tell it and are told it.
    pub(super) fn clock(&self) -> f64 {
        (self.since_epoch() + self.ahead - self.behind).as_secs_f64()
    }

    /// Returns what the clock shows at this time.
    pub(super) fn clock_at(&self, time: Instant) -> f64 {
        let now = self.now();
        self.clock() + time.saturating_duration_since(now).as_secs_f64()
            - now.saturating_duration_since(time).as_secs_f64()
    }

    pub(super) fn log_in(&mut self, client: Option<&Process>, is_standby: bool) -> u64 {
        let (session, process) = (self.next(), self.next());
        let state = SessionState {
            client: client.cloned(),
            process: i32::try_from(process).expect("few processes"),
            transaction: None,
            is_standby,
            is_running: false,
            is_canceled: false,
            is_committing: false,
            ending: None,
            waits_for: None,
            busy_since: None,
            signal: Arc::new(Notify::new()),
        };
        self.sessions.insert(session, state);
        session
    }

    pub(super) fn session(&mut self, session: u64) -> &mut SessionState {
        self.sessions.get_mut(&session).expect("its task has not removed it")
    }

    /// Returns what the session's transaction has done. One is open while a statement runs.
    pub(super) fn work(&mut self, session: u64) -> &mut Work {
        &mut self.session(session).transaction.as_mut().expect("it runs a statement").work
    }

    /// Returns when the session's transaction began.
    pub(super) fn begun(&mut self, session: u64) -> Instant {
        self.session(session).transaction.as_ref().expect("it runs a statement").begun
    }

    /// Returns the progress of the session's statement.
    pub(super) fn progress(&mut self, session: u64) -> &mut Progress {
        let transaction = self.session(session).transaction.as_mut();
        transaction.and_then(|it| it.progress.as_mut()).expect("it runs a statement")
    }

    /// Returns the time by which the session's statement goes.
    pub(super) fn time(&mut self, session: u64) -> Instant {
        self.progress(session).time
    }

    /// Returns the row that a session sees.
    pub(super) fn visible(&self, session: u64, id: Id) -> Option<&StoredRow> {
        let transaction = self.sessions.get(&session).and_then(|it| it.transaction.as_ref());
        match transaction.and_then(|it| it.work.rows.get(&id)) {
            Some(written) => written.as_ref(),
            None => self.rows.get(&id),
        }
    }

    /// Writes or deletes a row, if no other transaction has written it.
    pub(super) fn write(&mut self, session: u64, id: Id, row: Option<StoredRow>) -> Result<(), Stop> {
        if let Some(other) = self.writer(id, Some(session)) {
            return Err(self.wait(other, id));
        }
        self.work(session).rows.insert(id, row);
        Ok(())
    }

    /// Waits for what a session has written.
    fn wait(&mut self, session: u64, id: Id) -> Stop {
        Stop::Wait(Lock { session, begun: self.begun(session), id })
    }

    /// Returns the session, other than this one, whose transaction has written a row.
    pub(super) fn writer(&self, id: Id, except: Option<u64>) -> Option<u64> {
        self.find_other(except, |work| work.rows.contains_key(&id))
    }

    pub(super) fn insert(&mut self, session: u64, id: Id, record: Record) -> Result<(), Stop> {
        let number = self.next();
        self.write(session, id, Some(StoredRow { number, record, is_foreign: false }))
    }

    /// Takes the advisory lock of a key, if no other transaction has it.
    pub(super) fn try_lock(&mut self, session: u64, id: Id) -> bool {
        let is_free = self.lock_holder(session, id).is_none();
        if is_free {
            self.work(session).locks.insert(id);
        }
        is_free
    }

    /// Returns the other session that holds the advisory lock of a key.
    pub(super) fn lock_holder(&self, session: u64, id: Id) -> Option<u64> {
        self.find_other(Some(session), |work| work.locks.contains(&id))
    }

    fn find_other(&self, except: Option<u64>, has: impl Fn(&Work) -> bool) -> Option<u64> {
        let others = self.sessions.iter().filter(|(number, _)| Some(**number) != except);
        others
            .filter_map(|(number, it)| Some((number, it.transaction.as_ref()?)))
            .find(|(_, it)| has(&it.work))
            .map(|(number, _)| *number)
    }

    /// Carries out a statement at this instant, or stops: one that waits is tried again, and goes on.
    pub(super) fn attempt(&mut self, session: u64, sent: &Sent) -> Result<Vec<Row>, Stop> {
        let (now, action) = (self.now(), &sent.action);
        let it = self.session(session);
        let is_explicit = it.transaction.as_ref().is_some_and(|open| !open.is_implicit);
        let ends_failure =
            matches!(action, Action::CommitTransaction | Action::Empty | Action::RollBack | Action::RollBackTo(_));
        if it.transaction.as_ref().is_some_and(|open| open.is_aborted) && !ends_failure {
            return Err(SqlError::FAILED_TRANSACTION.into());
        }
        let is_read_only = it.is_standby && !action.is_for_standby();
        if is_explicit && sent.is_procedure {
            self.fail(session);
            return Err(SqlError::FORBIDDEN_COMMIT.into());
        }
        if is_read_only {
            self.fail(session);
            return Err(SqlError::READ_ONLY.into());
        }
        if action.is_of_transaction() {
            return self.divide(session, action).inspect_err(|_| self.fail(session)).map_err(Stop::Error);
        }
        let open = self.session(session).transaction.get_or_insert_with(|| Transaction::of_statement(now));
        open.progress.get_or_insert_with(|| Progress::new(open.work.clone(), now));
        let result = self.run(session, action);
        match &result {
            Ok(_) => drop(self.session(session).transaction.as_mut().and_then(|open| open.progress.take())),
            Err(Stop::Error(_)) => self.fail(session),
            Err(Stop::Wait(_)) => {}
        }
        result
    }

    /// Rolls back a statement that has failed: with its transaction, if that is its own.
    pub(super) fn fail(&mut self, session: u64) {
        let open = &mut self.session(session).transaction;
        match open {
            Some(Transaction { is_implicit: true, .. }) => *open = None,
            Some(open) => {
                open.is_aborted = true;
                open.work = open.progress.take().map_or(std::mem::take(&mut open.work), |progress| progress.before);
            }
            None => {}
        }
    }

    /// Begins, divides or rolls back a transaction. A commit is left to the session.
    fn divide(&mut self, session: u64, action: &Action) -> Result<Vec<Row>, SqlError> {
        let now = self.now();
        let open = &mut self.session(session).transaction;
        match (action, open) {
            // Without a question about the time, only a transaction that has run a query is noticed.
            (Action::BeginTransaction { asks }, Some(open)) if *asks || open.left_open != Some(LeftOpen::Begun) => {
                return Err(SqlError::ACTIVE_TRANSACTION);
            }
            (Action::BeginTransaction { .. }, Some(_)) => {
                self.returned_open.push(format!("connection #{session} has begun in another client's transaction"));
            }
            (Action::BeginTransaction { .. }, open) => *open = Some(Transaction::new(now)),
            (Action::RollBack, open) => *open = None,
            (Action::Savepoint(name), Some(open)) => open.set_savepoint(name),
            (Action::ReleaseSavepoint(name), Some(open)) => open.release(name)?,
            (Action::RollBackTo(name), Some(open)) => open.roll_back_to(name)?,
            (Action::CommitTransaction | Action::Empty, _) => {}
            _ => return Err(SqlError::NO_TRANSACTION),
        }
        Ok(Vec::new())
    }

    fn run(&mut self, session: u64, action: &Action) -> Result<Vec<Row>, Stop> {
        match action {
            Action::Abandon(reservation) => self.abandon(session, reservation),
            Action::Abandoned(search) => Ok(self.abandoned(session, search)),
            Action::Allow(allowance) => Ok(self.allow(*allowance)),
            Action::Ask => Ok(vec![Row::default().with("clock", self.clock())]),
            Action::Begin { claim, idle, until } => Ok(self.begin(session, claim, *idle, *until)),
            Action::BeginWithoutKey { idle } => {
                self.limit_idle(session, *idle);
                Ok(vec![self.who(session)])
            }
            Action::Claim { claim, until } => self.claim(session, claim, *until),
            Action::Commit { claim, completion } => self.commit_record(session, claim, completion),
            Action::Committed(reservation) => Ok(self.committed(session, reservation)),
            Action::Complete { reservation, completion } => self.complete(session, reservation, completion),
            Action::Effect { owner, key, call, is_unique } => self.effect(session, (*owner, *key), *call, *is_unique),
            Action::Extend { reservation, lease } => self.extend(session, reservation, *lease),
            Action::SelectOne => Ok(Vec::new()),
            Action::Look(looks) => Ok(self.look(session, looks)),
            Action::LookUp { reservation, status_of } => Ok(self.look_up(session, reservation, status_of)),
            Action::NoType => Err(SqlError::NO_TYPE.into()),
            Action::Record { claim, completion } => self.record(session, claim, completion),
            Action::Release(reservation) => self.release(session, reservation),
            Action::Status { resource } => Ok(self.status(resource)),
            Action::Sweep { batch } => Ok(self.sweep(session, *batch)),
            Action::Take { reservation, idle, until, is_free } => {
                Ok(self.take(session, reservation, *idle, *until, *is_free))
            }
            Action::Who => Ok(vec![self.who(session)]),
            Action::WriteMany { claims, is_asynchronous, until, completions } => {
                self.write_many(session, claims, *is_asynchronous, *until, completions)
            }
            Action::BeginTransaction { .. }
            | Action::CommitTransaction
            | Action::Empty
            | Action::ReleaseSavepoint(_)
            | Action::RollBack
            | Action::RollBackTo(_)
            | Action::Savepoint(_) => unreachable!("`divide` does it"),
        }
    }

    fn effect(&mut self, session: u64, (owner, key): Id, call: u64, is_unique: bool) -> Result<Vec<Row>, Stop> {
        let is_same = |effect: &Effect| effect.call == call;
        if is_unique {
            let has = |work: &Work| work.effects.iter().any(|(effect, is_unique)| *is_unique && is_same(effect));
            if self.effects.iter().any(is_same) || has(self.work(session)) {
                return Err(SqlError::UNIQUE.into());
            }
            if let Some(other) = self.find_other(Some(session), has) {
                return Err(self.wait(other, (owner, key)));
            }
        }
        self.work(session).effects.push((Effect { owner, key, call, time: Duration::ZERO }, is_unique));
        Ok(Vec::new())
    }

    /// Returns whether a session waits for another, or for one that waits for it. Then the other must not wait for it: that would be a deadlock.
    pub(super) fn waits_behind(&self, mut session: u64, other: u64) -> bool {
        // Those that wait only briefly may wait for each other.
        for _ in 0..self.sessions.len() {
            match self.sessions.get(&session).and_then(|it| it.waits_for) {
                Some(next) if next == other => return true,
                Some(next) => session = next,
                None => return false,
            }
        }
        false
    }

    /// Makes the session's transaction visible to all; rolls it back if it has failed.
    pub(super) fn commit(&mut self, session: u64) {
        let now = self.now();
        let SessionState { transaction, client, .. } = self.session(session);
        let (transaction, process) = (transaction.take(), client.clone());
        let Some(Transaction { work, is_aborted: false, .. }) = transaction else { return };
        if !work.writes() {
            return;
        }
        let time = self.world.time();
        let effects = work.effects.len();
        self.effects.extend(work.effects.into_iter().map(|(effect, _)| Effect { time, ..effect }));
        let mut before = Vec::new();
        for (id, row) in work.rows {
            if let (Some(process), Some(row)) = (&process, row.as_ref().filter(|row| row.record.outcome.is_some())) {
                self.outcomes.push(Outcome { process: process.clone(), at: time, record: row.stored(id, now) });
            }
            before.push((id, self.rows.remove(&id)));
            row.into_iter().for_each(|row| drop(self.rows.insert(id, row)));
        }
        if !work.is_asynchronous {
            // All that came before is on the disk with it.
            self.history.iter_mut().for_each(|commit| commit.is_asynchronous = false);
        }
        self.history.push_back(Commit { rows: before, effects, is_asynchronous: work.is_asynchronous, time: now });
        if self.history.len() > REMEMBERED {
            self.history.pop_front();
        }
    }

    /// Takes back the last commits.
    pub(super) fn lose(&mut self, commits: usize, loss: Loss) {
        for _ in 0..commits {
            let Some(Commit { rows, effects, .. }) = self.history.pop_back() else { return };
            let taken_back = self.effects.drain(self.effects.len() - effects..).map(|effect| effect.call);
            self.lost.effects.extend(taken_back);
            for (id, row) in rows {
                self.lost.keys.entry(id).or_default().push((self.world.time(), loss));
                let lost = self.rows.remove(&id);
                if loss == Loss::Crash && lost.is_some_and(|row| row.record.outcome.is_none()) {
                    self.world.count("crash", "loses a reservation");
                }
                row.into_iter().for_each(|row| drop(self.rows.insert(id, row)));
            }
            self.tell(format_args!("loses a commit with {effects} effects"));
        }
    }

    /// Draws how many of the last commits a crash loses: some of those that did not wait for the disk.
    pub(super) fn draw_unflushed(&mut self) -> usize {
        let now = self.now();
        let is_unflushed =
            |commit: &&Commit| commit.is_asynchronous && now.saturating_duration_since(commit.time) < FLUSHED_AFTER;
        let unflushed = self.history.iter().rev().take_while(is_unflushed).count();
        let lost = self.random.number(0..=unflushed as u64);
        usize::try_from(lost).expect("few commits")
    }

    pub(super) fn records(&self) -> Vec<StoredRecord> {
        let now = self.now();
        self.rows.iter().map(|(id, row)| row.stored(*id, now)).collect()
    }

    pub(super) fn is_reserved(&self, id: Id) -> bool {
        self.rows.get(&id).is_some_and(|row| !row.is_foreign && row.state(None, None, self.now()) == "reserved")
    }

    /// Returns whether there is a key whose call has not ended; with `reconciles`, or is to be looked into.
    pub(super) fn is_unsettled(&self, reconciles: bool) -> bool {
        let mut rows = self.rows.values().filter(|row| !row.is_foreign && row.record.is_live(self.now()));
        let is_unsettled = |row: &StoredRow| {
            row.record.outcome.is_none() && (reconciles || row.record.lease_left(self.now()) > Duration::ZERO)
        };
        !self.open().is_nothing() || rows.any(is_unsettled)
    }

    pub(super) fn reserved(&self) -> BTreeSet<Id> {
        self.rows.keys().copied().filter(|id| self.is_reserved(*id)).collect()
    }

    /// Notes if a connection that goes back to its pool leaves a transaction open.
    pub(super) fn look_at_returned(&mut self, session: u64, process: &Process) {
        let transaction = self.sessions.get(&session).and_then(|session| session.transaction.as_ref());
        if transaction.is_some_and(|transaction| transaction.left_open.is_none()) {
            self.returned_open.push(format!("connection #{session} of {process:?} went back in a transaction"));
        }
    }

    pub(super) fn open(&self) -> Open {
        let mut open = Open { sessions: self.sessions.len(), ..Open::default() };
        for session in self.sessions.values() {
            open.waiting += usize::from(session.waits_for.is_some());
            if let Some(transaction) = &session.transaction {
                open.transactions += 1;
                open.advisory_locks += transaction.work.locks.len();
                open.row_locks += transaction.work.rows.len();
            }
        }
        open
    }
}

impl StoredRow {
    fn stored(&self, (owner, key): Id, now: Instant) -> StoredRecord {
        let record = &self.record;
        let (response, metadata) = match &record.outcome {
            Some((StoredResponse::Message(stored), _)) => (Some(stored.message.clone()), stored.metadata.clone()),
            Some((StoredResponse::Error(error), _)) => (Some(error.clone()), None),
            Some((StoredResponse::Sealed(envelope), _)) => (None, Some(envelope.clone())),
            _ => (None, None),
        };
        StoredRecord {
            owner,
            key,
            token: record.token,
            procedure: record.procedure.clone(),
            state: self.state(None, None, now),
            attempts: record.attempts,
            request: *record.request.canonical(),
            response,
            metadata,
            expires_in: record.expires.saturating_duration_since(now),
        }
    }
}

pub(super) fn id(reservation: &Reservation) -> Id {
    (*reservation.owner.as_uuid(), *reservation.key.as_uuid())
}
