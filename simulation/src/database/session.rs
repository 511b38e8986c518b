//! The server's side of a connection: [`Session`].

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use tokio::{
    select,
    sync::{Notify, mpsc, oneshot},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    error::SqlError,
    row::Row,
    server::Database,
    state::{Ending, Lock, Stop},
    statement::{Action, Sent},
    transaction::Transaction,
    trouble::{self, Fate, LeftOpen},
};
use crate::world::{Cut, Link, Process, Signal};

/// How long a client waits for an acknowledgement: `tcp_user_timeout`.
pub const SILENCE: Duration = Duration::from_secs(15);

/// How much later the server's keepalives find out.
pub const KEEPALIVES: Duration = Duration::from_secs(15);

/// The rows of each statement of a request, or the error of the first that failed.
pub(super) type Answer = Result<Vec<Vec<Row>>, SqlError>;

/// Statements that are sent together.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) statements: Vec<Sent>,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// A session of the server: a task, which handles the requests of its connection in their order.
pub(super) struct Session {
    pub(super) number: u64,
    pub(super) database: Database,
    pub(super) process: Process,
    pub(super) link: Link,
    pub(super) requests: mpsc::UnboundedReceiver<Request>,
    /// Tells the client that the connection has ended.
    pub(super) ended: Arc<Signal<Option<Ending>>>,
}

impl Session {
    /// Lives until the connection has ended, and then rolls back.
    pub(super) async fn live(mut self, cut: impl Future<Output = ()>) {
        let (ended, number, database) = (Arc::clone(&self.ended), self.number, self.database.clone());
        let mut served = pin!(self.serve());
        select! {
            biased;
            () = &mut served => {}
            () = cut => {
                end(&ended, Ending::Cut);
                served.await;
            }
        }
        database.log_out(number);
        // The client may still send something, and has to learn that there is no answer.
        end(&ended, Ending::Cut);
    }

    async fn serve(&mut self) {
        let signal = Arc::clone(&self.database.lock().session(self.number).signal);
        while !self.is_cut() {
            if let Some(ending) = self.ending() {
                return self.say_farewell(ending, false).await;
            }
            let idle = self.idle_timeout();
            let request = select! {
                biased;
                _ = self.ended.until(|ended| ended.is_some()) => return,
                () = signal.notified() => continue,
                request = self.requests.recv() => request,
                () = self.process.killed() => None,
                () = at(idle.map(|idle| Instant::now() + idle)) => {
                    self.database.lock().session(self.number).transaction = None;
                    self.database.wake_waiting();
                    return self.say_farewell(Ending::Told(SqlError::IDLE), false).await;
                }
            };
            let Some(request) = request else {
                // Its kernel closes the connection; or its pool, unless it is paused.
                if self.process.is_alive() {
                    select! { biased; () = self.process.gate() => {}, () = self.process.killed() => {} }
                }
                return drop(timeout(self.notices_silence(), self.link.carry()).await);
            };
            if !self.crosses().await || self.is_cut() {
                return;
            }
            if let Some(ending) = self.ending() {
                return self.say_farewell(ending, true).await;
            }
            let answer = self.carry_out(&signal, request.statements).await;
            if let Some(ending @ (Ending::Cut | Ending::Silent)) = self.ending() {
                return self.say_farewell(ending, true).await;
            }
            if !self.crosses().await || self.is_cut() {
                return;
            }
            // The client may have given it up.
            let _ = request.answer.send(answer);
        }
    }

    fn is_cut(&self) -> bool {
        self.ended.get().is_some()
    }

    fn ending(&self) -> Option<Ending> {
        self.database.lock().session(self.number).ending
    }

    /// Carries a message to the other side. Returns whether it arrives.
    async fn crosses(&self) -> bool {
        match timeout(SILENCE, self.link.carry()).await {
            Ok(Ok(())) => true,
            Ok(Err(Cut)) => {
                end(&self.ended, Ending::Cut);
                false
            }
            Err(_) => {
                // The client gives up, and the server does not learn of it.
                end(&self.ended, Ending::Cut);
                sleep(self.notices_silence()).await;
                false
            }
        }
    }

    /// Ends the connection. Whether the client `waits` for an answer decides when it finds out, if it is not told.
    async fn say_farewell(&mut self, ending: Ending, waits: bool) {
        self.database.lock().tell(format_args!("#{} ends: {ending:?}", self.number));
        if ending != Ending::Silent && matches!(timeout(SILENCE, self.link.carry()).await, Ok(Ok(()))) {
            end(&self.ended, ending);
            return;
        }
        // The client finds out when it sends something, and nothing is acknowledged.
        self.database.log_out(self.number);
        if waits {
            return sleep(SILENCE).await;
        }
        select! {
            biased;
            request = self.requests.recv() => if request.is_some() { sleep(SILENCE).await },
            () = self.process.killed() => {}
        }
    }

    /// Returns the time that the transaction may still be idle.
    fn idle_timeout(&self) -> Option<Duration> {
        self.database.lock().session(self.number).transaction.as_ref()?.work.idle
    }

    /// Returns how long it takes the server to end a session whose client is silent.
    fn notices_silence(&self) -> Duration {
        self.idle_timeout().map_or(KEEPALIVES, |idle| idle.min(KEEPALIVES))
    }

    async fn carry_out(&mut self, signal: &Notify, statements: Vec<Sent>) -> Answer {
        let mut rows = Vec::with_capacity(statements.len());
        for sent in statements {
            {
                let mut state = self.database.lock();
                let session = state.session(self.number);
                (session.is_running, session.is_canceled) = (true, false);
                session.busy_since = sent.is_of_store.then(Instant::now);
            }
            let answer = self.run(signal, &sent).await;
            let mut state = self.database.lock();
            let session = state.session(self.number);
            (session.is_running, session.busy_since) = (false, None);
            let outcome = match &answer {
                Err(error) => error.code,
                Ok(rows) => rows.first().and_then(|row| row.text("state").or(row.text("outcome"))).unwrap_or("done"),
            };
            state.tell(format_args!("#{} {sent}: {outcome}", self.number));
            state.world.count(sent.name, if sent.is_full() { "of 64" } else { outcome });
            rows.push(answer?);
        }
        Ok(rows)
    }

    async fn run(&self, signal: &Notify, sent: &Sent) -> Result<Vec<Row>, SqlError> {
        let action = &sent.action;
        let fate = self.database.lock().draws.statement();
        self.meet_pooler(&fate, action)?;
        self.pause(signal, fate.latency).await?;
        let is_commit = matches!(action, Action::CommitTransaction);
        let is_met = |error: &SqlError| if is_commit { error.may_end_commit() } else { !action.is_of_transaction() };
        if let Some(error) = fate.error.filter(is_met) {
            let mut state = self.database.lock();
            state.fail(self.number);
            if is_commit {
                state.commit(self.number);
                self.database.wake_waiting();
            }
            return Err(error);
        }
        if fate.cut == Some(trouble::Cut::BeforeEffect) {
            return Err(self.cut_off());
        }
        let was_open = self.database.lock().session(self.number).transaction.is_some();
        let mut rows = self.execute(signal, sent).await?;
        let is_asked = |row: &Row| row.text("state").is_none_or(|state| matches!(state, "completed" | "not_stored"));
        if action.asks_for_status() && rows.iter().any(is_asked) {
            if !fate.status.is_zero() {
                self.database.lock().world.count("status", "slow");
                self.pause(signal, fate.status).await?;
            }
            if fate.loses_status {
                self.database.lock().world.count("status", "cannot be read");
                rows.iter_mut().for_each(Row::lose_status);
            }
        }
        if is_commit || !was_open && !action.is_of_transaction() {
            self.commit(fate.commit).await?;
        } else if action.is_of_transaction() {
            self.database.wake_waiting();
        }
        if fate.cut == Some(trouble::Cut::AfterEffect) {
            return Err(self.cut_off());
        }
        match fate.after {
            Some(error) => {
                self.database.lock().fail(self.number);
                Err(error)
            }
            None => Ok(rows),
        }
    }

    /// Has the connection cut, and the transaction rolled back that may be open.
    fn cut_off(&self) -> SqlError {
        let mut state = self.database.lock();
        let session = state.session(self.number);
        session.ending.get_or_insert(Ending::Cut);
        session.transaction = None;
        self.database.wake_waiting();
        SqlError::CRASH
    }

    /// Lets a pooler change or lose the session before a statement.
    fn meet_pooler(&self, fate: &Fate, action: &Action) -> Result<(), SqlError> {
        let mut state = self.database.lock();
        let (next, now) = (state.next(), state.now());
        let session = state.session(self.number);
        if fate.drops_session {
            session.transaction = None;
            self.database.wake_waiting();
            return Err(SqlError::LOST_BY_POOLER);
        }
        if session.transaction.is_none() && fate.changes_session {
            session.process = i32::try_from(next).expect("few processes");
        }
        // The handler's own statement does not look for one, as those of the store do.
        if session.transaction.is_none()
            && !matches!(action, Action::Effect { .. })
            && let Some(kind) = fate.left_open
        {
            let mut left = Transaction::new(now.checked_sub(Duration::from_secs(1)).unwrap_or(now));
            left.is_aborted = kind == LeftOpen::Failed;
            left.left_open = Some(kind);
            session.transaction = Some(left);
        }
        Ok(())
    }

    /// Carries out a statement, as soon as no other transaction has what it needs. It waits for each lock on its own, and keeps what it has
    /// written meanwhile.
    async fn execute(&self, signal: &Notify, sent: &Sent) -> Result<Vec<Row>, SqlError> {
        let mut waits: Option<(Lock, Option<Instant>)> = None;
        loop {
            let next_end = self.database.next_end();
            {
                let mut state = self.database.lock();
                let lock = match state.attempt(self.number, sent) {
                    Ok(rows) => return Ok(rows),
                    Err(Stop::Error(error)) => {
                        self.database.wake_waiting();
                        return Err(error);
                    }
                    Err(Stop::Wait(lock)) => lock,
                };
                let (other, time) = (lock.session, sent.action.lock_timeout());
                // PostgreSQL looks for a deadlock only after a second. A statement that waits briefly has given up by then.
                if time.is_none() && state.waits_behind(other, self.number) {
                    state.fail(self.number);
                    self.database.wake_waiting();
                    return Err(SqlError::DEADLOCK);
                }
                if waits.is_none_or(|(waits, _)| waits != lock) {
                    waits = Some((lock, time.map(|time| Instant::now() + time)));
                    state.tell(format_args!("#{} {sent}: waits for #{other}", self.number));
                }
                state.session(self.number).waits_for = Some(other);
            }
            let gives_up = waits.and_then(|(_, gives_up)| gives_up);
            let ended = select! {
                biased;
                () = signal.notified() => self.check(),
                () = next_end => Ok(()),
                () = at(gives_up) => Err(SqlError::LOCK_NOT_AVAILABLE),
            };
            let mut state = self.database.lock();
            state.session(self.number).waits_for = None;
            if let Err(error) = ended {
                state.fail(self.number);
                self.database.wake_waiting();
                return Err(error);
            }
        }
    }

    /// Commits the session's transaction. While it waits, its locks stay, and it is neither cancelled nor ended.
    async fn commit(&self, wait: Duration) -> Result<(), SqlError> {
        let waits = {
            let mut state = self.database.lock();
            let session = state.session(self.number);
            let open = session.transaction.as_ref().filter(|open| !open.is_aborted);
            let waits = !wait.is_zero() && open.is_some_and(|open| open.work.writes() && !open.work.is_asynchronous);
            session.is_committing = waits;
            waits
        };
        if waits {
            sleep(wait).await;
        }
        let mut state = self.database.lock();
        let session = state.session(self.number);
        session.is_committing = false;
        // A crash has ended it.
        let is_lost = waits && session.transaction.is_none();
        state.commit(self.number);
        drop(state);
        self.database.wake_waiting();
        if is_lost { Err(SqlError::CRASH) } else { Ok(()) }
    }

    async fn pause(&self, signal: &Notify, time: Duration) -> Result<(), SqlError> {
        let mut over = pin!(sleep(time));
        loop {
            // Also when the time is over: its session may have ended in the same instant.
            let checked = self.check();
            if checked.is_err() || over.is_elapsed() || time.is_zero() {
                return checked.inspect_err(|_| self.database.lock().fail(self.number));
            }
            select! {
                biased;
                () = &mut over => {}
                () = signal.notified() => {}
            }
        }
    }

    /// Fails if the statement was cancelled, or the session has ended.
    fn check(&self) -> Result<(), SqlError> {
        let mut state = self.database.lock();
        let session = state.session(self.number);
        match session.ending {
            Some(Ending::Told(error)) => Err(error),
            Some(Ending::Cut | Ending::Silent) => Err(SqlError::CRASH),
            None if std::mem::take(&mut session.is_canceled) => Err(SqlError::CANCELED),
            None => Ok(()),
        }
    }
}

/// Notes how a connection has ended, if it had not.
fn end(ended: &Signal<Option<Ending>>, ending: Ending) {
    ended.change(|ended| ended.is_none() && ended.replace(ending).is_none());
}

/// Returns at this time; never, if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
