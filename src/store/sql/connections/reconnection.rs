//! Makes connections one at a time while the last one was lost or could not be made. So a server that recovers, or that is full, is not overrun.

use std::{
    fmt,
    future::pending,
    mem,
    pin::pin,
    sync::{Mutex, MutexGuard as StateGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio::{
    sync::{Mutex as Turns, MutexGuard, Notify},
    time::{Instant, sleep_until},
};

use super::pause::pause;
use crate::{
    pause::Pauses,
    store::{
        StoreErrorKind,
        sql::{
            answers::{is_full, kind_without_connection},
            driver::{AcquireError, AcquireErrorKind, ConnectionPool},
        },
    },
};

/// The pauses after which a caller looks for an idle connection again.
const LOOKS: Pauses = Pauses::new(Duration::from_millis(2), Duration::from_millis(32));

/// The time after which a connection that was not made counts as one that cannot be made, if its caller gives it up.
const SLOW: Duration = Duration::from_millis(250);

/// The number of pauses that are left out: a login costs the server more than a statement, and there are no more than 20 in a second.
const SKIPPED: u32 = 3;

/// The turns of the callers that need a connection of one pool: while the last one failed, one looks for an idle connection, and one makes a
/// new one.
#[derive(Debug, Default)]
pub(in crate::store::sql) struct Reconnection {
    looking: Turns<()>,
    making: Turns<()>,
    /// `None`: the last connection was made, and callers do not wait for each other.
    failed: Mutex<Option<FailedConnection>>,
    fails_again: Notify,
}

/// The last connection, which was lost or could not be made.
#[derive(Debug)]
struct FailedConnection {
    times: u32,
    next: Instant,
    why: (AcquireErrorKind, String),
}

impl Reconnection {
    /// Takes a connection out of the pool, or makes one, when it is this caller's turn. If the server cannot be asked, which `is_lost` says, the
    /// next failure of another caller is this one's, too.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the next caller has its turn.
    pub(super) async fn acquire<P: ConnectionPool>(
        &self,
        pool: &P,
        is_lost: impl Fn() -> bool,
    ) -> Result<P::Connection, AcquireError> {
        loop {
            let turn = match self.next() {
                Some(_) => self.turn(pool, &is_lost).await?,
                None => None,
            };
            let is_turn = turn.is_some();
            let takes_idle = is_turn && pool.has_idle();
            let attempt = ConnectionAttempt { reconnection: self, pool, begun: Instant::now(), takes_idle };
            let another_fails = async {
                match is_turn {
                    true => pending().await,
                    false => self.fails_again.notified().await,
                }
            };
            match select(pin!(pool.acquire()), pin!(another_fails)).await {
                Either::Left((acquired, _)) => {
                    attempt.ends(acquired.as_ref().err(), is_turn);
                    return acquired;
                }
                // Those that wait in the pool would all try as well, one after the other.
                Either::Right(_) => mem::forget(attempt),
            }
        }
    }

    /// Notes that a connection was lost: others may not be made, either.
    pub(super) fn loses(&self) {
        let failed = || FailedConnection {
            times: 0,
            next: Instant::now(),
            why: (AcquireErrorKind::Unreachable, "a connection was lost".to_owned()),
        };
        self.failed().get_or_insert_with(failed);
    }

    /// Returns whether the last connection was lost, or could not be made. A pool may count the one that is being made as one in use.
    pub(super) fn has_failed(&self) -> bool {
        self.next().is_some()
    }

    async fn turn<P: ConnectionPool>(
        &self,
        pool: &P,
        is_lost: &impl Fn() -> bool,
    ) -> Result<Option<MutexGuard<'_, ()>>, AcquireError> {
        let mut failure = pin!(self.fails_again.notified());
        failure.as_mut().enable();
        if self.next().is_none() {
            return Ok(None);
        }
        let mut turn = pin!(self.looking.lock());
        let turn = loop {
            match select(turn.as_mut(), failure.as_mut()).await {
                Either::Left((turn, _)) => break turn,
                Either::Right(_) => {
                    if is_lost()
                        && let Some(FailedConnection { why: (kind, text), .. }) = &*self.failed()
                    {
                        return Err(AcquireError::new(kind.clone(), text.clone()));
                    }
                    failure.set(self.fails_again.notified());
                }
            }
        };
        let mut looks = LOOKS;
        while let Some(next) = self.next() {
            if pool.has_idle() {
                return Ok(Some(turn));
            }
            let now = Instant::now();
            if next <= now
                && let Ok(making) = self.making.try_lock()
                && self.begins(now)
            {
                return Ok(Some(making));
            }
            let until = now + looks.next();
            sleep_until(if next > now { next.min(until) } else { until }).await;
        }
        Ok(None)
    }

    /// Returns when the next connection may be made; `None` if at any time.
    fn next(&self) -> Option<Instant> {
        self.failed().as_ref().map(|failed| failed.next)
    }

    /// Lets a connection be made if it is time. The next one is made after a pause, also if this one's caller gives it up at once.
    fn begins(&self, now: Instant) -> bool {
        let mut failed = self.failed();
        let due = failed.as_mut().filter(|failed| failed.next <= now);
        due.map(|failed| failed.next = next_after(failed.times.saturating_add(1))).is_some()
    }

    fn fails(&self, kind: AcquireErrorKind, text: impl fmt::Display) {
        let mut failed = self.failed();
        let times = failed.as_ref().map_or(0, |failed| failed.times).saturating_add(1);
        *failed = Some(FailedConnection { times, next: next_after(times), why: (kind, text.to_string()) });
        drop(failed);
        self.fails_again.notify_waiters();
    }

    /// Ignores poisoning: no operation leaves it half changed.
    fn failed(&self) -> StateGuard<'_, Option<FailedConnection>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns when the next connection may be made, after this many failures.
fn next_after(times: u32) -> Instant {
    Instant::now() + pause(times.saturating_add(SKIPPED))
}

/// A connection that is taken out of the pool or made.
struct ConnectionAttempt<'a, P: ConnectionPool> {
    reconnection: &'a Reconnection,
    pool: &'a P,
    begun: Instant,
    takes_idle: bool,
}

impl<P: ConnectionPool> ConnectionAttempt<'_, P> {
    /// Notes the outcome. `is_turn` says whether other callers waited for it.
    fn ends(self, error: Option<&AcquireError>, is_turn: bool) {
        match error {
            None if is_turn && !self.takes_idle => *self.reconnection.failed() = None,
            Some(error)
                if is_full(error)
                    || kind_without_connection(error, self.pool.is_exhausted()) == StoreErrorKind::Unreachable =>
            {
                self.reconnection.fails(error.kind().clone(), error);
            }
            _ => {}
        }
        mem::forget(self);
    }
}

impl<P: ConnectionPool> Drop for ConnectionAttempt<'_, P> {
    fn drop(&mut self) {
        if !self.takes_idle && self.begun.elapsed() >= SLOW && !self.pool.is_exhausted() {
            self.reconnection.fails(AcquireErrorKind::Unreachable, "no connection could be made in time");
        }
    }
}
