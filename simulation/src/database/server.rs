//! The server, as the rest of a world sees it: [`Database`].

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use tonic_idempotency::{
    status::{OutboxStatus, ResourceId},
    store::{Claim, RequestHashes, StoredResponse, memory_transitions::Record},
};
use uuid::Uuid;

use super::{
    error::SqlError,
    state::{Ending, Loss, Lost, Open, Outcome, State, StoredRecord, id},
    stored_row::{Effect, StoredRow},
    trouble::Trouble,
};
use crate::world::{Process, World};

/// A server of PostgreSQL with one database. Clones are the same.
#[derive(Clone)]
pub struct Database(Arc<Server>);

struct Server {
    /// Never locked across an `.await`.
    state: Mutex<State>,
    /// Wakes statements that wait for a transaction, when one ends.
    ended: Notify,
}

/// The answer to a login.
#[derive(Clone, Copy, Debug)]
pub(super) enum Login {
    Session(u64),
    Refused(&'static str),
    Unreachable,
}

impl Database {
    /// Makes a database without rows.
    pub fn new(world: &World) -> Self {
        Self(Arc::new(Server { state: Mutex::new(State::new(world)), ended: Notify::new() }))
    }

    /// Has the clock jump ahead: leases and retentions end sooner.
    pub fn jump(&self, by: Duration) {
        let mut state = self.lock();
        state.ahead += by;
        state.tell(format_args!("its clock jumps {by:?} ahead"));
    }

    /// Has the clock set back: leases and retentions end later.
    pub fn set_back(&self, by: Duration) {
        let mut state = self.lock();
        state.behind += by;
        state.tell(format_args!("its clock is set back by {by:?}"));
    }

    /// Ends all sessions, as an administrator does. Their transactions are rolled back, but for a COMMIT that waits.
    pub fn end_sessions(&self) {
        let mut state = self.lock();
        state.tell(format_args!("an administrator ends all sessions"));
        for session in state.sessions.values_mut() {
            session.ending.get_or_insert(Ending::Told(SqlError::ADMIN_SHUTDOWN));
            if !session.is_committing {
                session.transaction = None;
            }
            session.signal.notify_one();
        }
        self.0.ended.notify_waiters();
    }

    /// Crashes, and refuses logins for this time. Committed rows stay, but for the last of those that did not wait for the disk.
    pub fn restart(&self, down: Duration) {
        let mut state = self.lock();
        let state = &mut *state;
        state.tell(format_args!("crashes, and is back in {down:?}"));
        Self::end_commits(state);
        let lost = state.draw_unflushed();
        state.lose(lost, Loss::Crash);
        for session in state.sessions.values_mut() {
            let endings = [Ending::Cut, Ending::Told(SqlError::CRASH)];
            session.ending.get_or_insert(*state.random.one_of(&endings));
            session.transaction = None;
            session.signal.notify_one();
        }
        (state.down_until, state.has_standby) = (Some(Instant::now() + down), false);
        self.0.ended.notify_waiters();
    }

    /// Has another server take over after this time, without the last commits: those that did not wait for it, or `loses` if it is more. Old sessions are ended, fall silent, or go on with a standby.
    pub fn fail_over(&self, loses: usize, down: Duration) {
        let mut state = self.lock();
        let state = &mut *state;
        state.tell(format_args!("fails over, without its last {loses} commits, in {down:?}"));
        Self::end_commits(state);
        let unflushed = state.draw_unflushed();
        state.lose(unflushed.max(loses), if loses > 0 { Loss::FailOver } else { Loss::Crash });
        for session in state.sessions.values_mut() {
            let is_idle = session.transaction.take().is_none() && !session.is_running;
            match state.random.number(0..=2) {
                0 if is_idle && session.ending.is_none() => session.is_standby = true,
                1 => drop(session.ending.get_or_insert(Ending::Silent)),
                _ => drop(session.ending.get_or_insert(Ending::Told(SqlError::ADMIN_SHUTDOWN))),
            }
            session.signal.notify_one();
        }
        (state.down_until, state.has_standby) = (Some(Instant::now() + down), true);
        self.0.ended.notify_waiters();
    }

    /// Ends each COMMIT that waits, one way or the other.
    fn end_commits(state: &mut State) {
        let committing: Vec<_> =
            state.sessions.iter().filter(|(_, it)| it.is_committing).map(|(session, _)| *session).collect();
        for session in committing {
            if state.random.once_in(2) {
                state.commit(session);
            }
        }
    }

    /// Adds to what goes wrong, until it is [removed](Self::remove).
    pub fn add(&self, trouble: Trouble) {
        self.lock().draws.add(trouble);
    }

    /// Takes away what was [added](Self::add), once.
    pub fn remove(&self, trouble: Trouble) {
        self.lock().draws.remove(trouble);
    }

    /// Sets the status of a resource that a call has created; `None` for no status, as all have at first.
    pub fn set_status(&self, resource: &ResourceId, status: Option<OutboxStatus>) {
        let mut state = self.lock();
        state.statuses.remove(&resource.to_string());
        let status = status.map(|status| match status {
            OutboxStatus::Completed => "completed",
            OutboxStatus::Failed => "failed",
            OutboxStatus::Pending => "pending",
            OutboxStatus::Retrying => "retrying",
        });
        state.statuses.extend(status.map(|status| (resource.to_string(), status)));
    }

    /// Reserves a key as the Go interceptor does: without a token and a lease. Returns whether it had no row.
    pub async fn reserve_as_go(&self, claim: &Claim) -> bool {
        self.change_as_go(claim, |state| {
            let (id, now, number) = (id(&claim.reservation), state.now(), state.next());
            let is_new = !state.rows.contains_key(&id);
            if is_new {
                state.rows.insert(id, StoredRow { number, record: Self::record_of_go(claim, now), is_foreign: true });
            }
            is_new
        })
        .await
    }

    /// Ends a reservation as the Go interceptor does: with a response, or by deleting its row. It does so with any row that has no response.
    /// Returns whether there was one; `None` if that has another outcome.
    pub async fn end_as_go(&self, claim: &Claim, response: Option<StoredResponse>) -> Option<bool> {
        self.change_as_go(claim, |state| {
            let id = id(&claim.reservation);
            let has_response = |row: &StoredRow| {
                row.record.outcome.as_ref().is_some_and(|(response, _)| !matches!(response, StoredResponse::Error(_)))
            };
            let Some(row) = state.rows.get_mut(&id).filter(|row| !has_response(row)) else { return Some(false) };
            match response {
                Some(_) if row.record.unknown || row.record.outcome.is_some() => return None,
                Some(response) => row.record.outcome = Some((response, None)),
                None => drop(state.rows.remove(&id)),
            }
            Some(true)
        })
        .await
    }

    /// Changes a row as soon as no transaction has written it.
    async fn change_as_go<T>(&self, claim: &Claim, change: impl FnOnce(&mut State) -> T) -> T {
        loop {
            let next_end = self.next_end();
            {
                let mut state = self.lock();
                if state.writer(id(&claim.reservation), None).is_none() {
                    return change(&mut state);
                }
            }
            next_end.await;
        }
    }

    fn record_of_go(claim: &Claim, now: Instant) -> Record {
        let mut record = Record::reserved(claim, now);
        (record.token, record.lease_expires) = (Uuid::nil(), None);
        record.request = RequestHashes::from(*record.request.canonical());
        record
    }

    /// Returns the committed record of a key, whether the Go interceptor has made it, and the time of the clock.
    pub fn row(&self, owner: Uuid, key: Uuid) -> Option<(Record, bool, Instant)> {
        let state = self.lock();
        let StoredRow { record, is_foreign, .. } = state.rows.get(&(owner, key))?;
        Some((record.clone(), *is_foreign, state.now()))
    }

    /// Returns the number of records that have expired.
    pub fn expired(&self) -> usize {
        let state = self.lock();
        state.rows.values().filter(|row| !row.record.is_live(state.now())).count()
    }

    /// Returns whether the effect of a call is committed.
    pub fn has_effect(&self, call: u64) -> bool {
        self.lock().effects.iter().any(|effect| effect.call == call)
    }

    /// Returns the committed effects, in the order of their commits.
    pub fn effects(&self) -> Vec<Effect> {
        self.lock().effects.clone()
    }

    /// Returns what failovers and crashes have taken back.
    pub fn lost(&self) -> Lost {
        self.lock().lost.clone()
    }

    /// Returns the outcomes that were committed, in order; also those that were lost again.
    pub fn outcomes(&self) -> Vec<Outcome> {
        self.lock().outcomes.clone()
    }

    /// Returns the committed records, in the order of owners and keys.
    pub fn records(&self) -> Vec<StoredRecord> {
        self.lock().records()
    }

    /// Returns whether a key is reserved now, with a lease that has not ended.
    pub fn is_reserved(&self, owner: Uuid, key: Uuid) -> bool {
        self.lock().is_reserved((owner, key))
    }

    /// Returns the owners and keys that are reserved now, with leases that have not ended.
    pub fn reserved(&self) -> BTreeSet<(Uuid, Uuid)> {
        self.lock().reserved()
    }

    /// Returns whether there is a key whose call has not ended; with `reconciles`, or is to be looked into.
    pub fn is_unsettled(&self, reconciles: bool) -> bool {
        self.lock().is_unsettled(reconciles)
    }

    /// Returns the connections that went back to their pools in a transaction, in words.
    pub fn returned_open(&self) -> Vec<String> {
        self.lock().returned_open.clone()
    }

    /// Returns what sessions hold now.
    pub fn open(&self) -> Open {
        self.lock().open()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes when a transaction ends, counted from this call.
    pub(super) fn next_end(&self) -> impl Future<Output = ()> + Send + '_ {
        self.0.ended.notified()
    }

    pub(super) fn wake_waiting(&self) {
        self.0.ended.notify_waiters();
    }

    pub(super) fn log_in(&self, client: &Process) -> Login {
        let mut state = self.lock();
        let mut is_standby = false;
        if state.down_until.is_some_and(|until| Instant::now() < until) {
            let last = if state.has_standby { 2 } else { 1 };
            match state.random.number(0..=last) {
                0 => return Login::Unreachable,
                1 => return Login::Refused("57P03"),
                _ => is_standby = true,
            }
        }
        if state.draws.refuses_login() {
            return Login::Refused("53300");
        }
        Login::Session(state.log_in(Some(client), is_standby))
    }

    /// Ends a session, and rolls its transaction back.
    pub(super) fn log_out(&self, session: u64) {
        self.lock().sessions.remove(&session);
        self.wake_waiting();
    }

    /// Cancels the statement of a session, if it runs in the transaction that began at this time.
    pub(super) fn cancel(&self, session: u64, begun: f64) {
        let mut state = self.lock();
        let Some(transaction) = state.sessions.get(&session).and_then(|it| it.transaction.as_ref()) else { return };
        let is_same = (state.clock_at(transaction.begun) - begun).abs() < 1e-4;
        let session = state.session(session);
        if is_same && session.is_running && !session.is_committing {
            session.is_canceled = true;
            session.signal.notify_one();
        }
    }

    /// Counts the store's statements that have run for this long.
    pub(super) fn running(&self, age: Duration) -> i64 {
        let state = self.lock();
        let is_old = |since: Instant| since.elapsed() >= age / 2;
        let running = state.sessions.values().filter(|session| session.busy_since.is_some_and(is_old)).count();
        i64::try_from(running).expect("few sessions")
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("open", &self.open()).finish_non_exhaustive()
    }
}
