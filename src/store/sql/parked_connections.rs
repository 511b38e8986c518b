//! Connections whose statements were given up, and which may still write.
//!
//! Such a statement is not cancelled: a COMMIT that waits for a synchronous standby would succeed on the primary alone. If its connection
//! were closed, its process would go on, perhaps for hours, and the pool would open further connections until the server has none left. So
//! the connection keeps its place in the pool until it is answered; or until the server, asked on a separate connection, no longer has a
//! statement that is so old: then the answer was lost on its way.

use std::{
    collections::BTreeMap,
    mem,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
    time::{Instant, timeout},
};

use super::{
    connection::Connections,
    driver::{Connection as _, Driver},
    progress::SentClaim,
};
use crate::telemetry::Chain;

/// The pause after a question, and the longest, without a new connection.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// The longest time that a question may take.
const QUESTION: Duration = Duration::from_secs(2);

/// Begins a transaction as the login, to which alone its statements are shown, not to a role that it may have set. The role is reset for
/// the transaction alone: a pooler gives the session to others after it. A transaction whose connection falls silent ends by itself, after
/// as long as a question may take.
const AS_LOGIN: &str = "BEGIN READ ONLY; SET LOCAL ROLE NONE; SET LOCAL idle_in_transaction_session_timeout = '2s'";

/// The parked connections of a pool.
#[derive(Debug, Default)]
pub(super) struct Parked {
    state: Mutex<State>,
    came: Notify,
}

#[derive(Debug, Default)]
struct State {
    places: BTreeMap<u64, Place>,
    next: u64,
    /// Whether a task asks about them.
    is_asking: bool,
}

#[derive(Debug)]
struct Place {
    /// When the statement was sent.
    sent: Instant,
    /// Whether it is of a claim, without a connection.
    of_claim: bool,
    /// Its drop signals that the statement has ended.
    _held: oneshot::Sender<()>,
}

impl Parked {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the places and the age of the youngest statement; `None` if there are no places: then the task ends.
    fn asks(&self) -> Option<(Vec<u64>, Duration)> {
        let mut state = self.state();
        let youngest = state.places.values().map(|place| place.sent.elapsed()).min();
        state.is_asking = youngest.is_some();
        Some((state.places.keys().copied().collect(), youngest?))
    }

    /// Gives up as many of these places as there are more of than running statements. It is not known which place a running statement
    /// belongs to: the place of one connection is as good as that of any other, but a claim is given up only if no statement runs.
    fn found(&self, asked_for: &[u64], running: usize) {
        let mut state = self.state();
        let is_given_up = |place: &&u64| state.places.get(place).is_some_and(|it| !it.of_claim || running == 0);
        let there: Vec<_> = asked_for.iter().filter(is_given_up).collect();
        for place in &there[..there.len().saturating_sub(running)] {
            state.places.remove(place);
        }
    }
}

/// Holds the place of a connection, and leaves it when dropped.
struct Ticket<'a>(&'a Parked, u64);

impl<'a> Ticket<'a> {
    /// Also returns whether a task has to be started that asks.
    fn take(parked: &'a Parked, sent: Instant, of_claim: bool) -> (Self, oneshot::Receiver<()>, bool) {
        let (held, ended) = oneshot::channel();
        let mut state = parked.state();
        let place = state.next;
        state.next += 1;
        state.places.insert(place, Place { sent, of_claim, _held: held });
        let begins = !mem::replace(&mut state.is_asking, true);
        parked.came.notify_one();
        (Self(parked, place), ended, begins)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.0.state().places.remove(&self.1);
    }
}

impl<D: Driver> Connections<D> {
    /// Keeps a connection on which a statement was sent at that time, until it is answered. Closes the connection and returns `None` if the
    /// statement has ended without an answer.
    pub(super) async fn park(&self, mut connection: D::Connection, sent: Instant) -> Option<D::Connection> {
        let (_ticket, ended, begins) = Ticket::take(self.parked(), sent, false);
        if begins {
            tokio::spawn(ask(self.clone()));
        }
        let is_answered = match select(pin!(connection.execute("")), ended).await {
            Either::Left((answer, _)) => answer.is_ok(),
            Either::Right(_) => false,
        };
        if is_answered {
            Some(connection)
        } else {
            connection.close();
            None
        }
    }

    /// As [`park`](Self::park), in a task of its own, which gives the connection back. Outside of a runtime it is closed. These claims were
    /// sent on it.
    pub(super) fn park_in_background(&self, connection: D::Connection, sent: Instant, claims: Vec<SentClaim>) {
        let Ok(runtime) = Handle::try_current() else { return connection.close() };
        let connections = self.clone();
        runtime.spawn(async move {
            match connections.park(connection, sent).await {
                Some(_answered) => claims.into_iter().for_each(SentClaim::answered),
                None => connections.outlive(claims, sent),
            }
        });
    }

    /// Keeps these claims, whose connection is lost, until the server has no statement any more that is so old: one may be in its COMMIT.
    pub(super) fn outlive(&self, claims: Vec<SentClaim>, sent: Instant) {
        let (false, Ok(runtime)) = (claims.is_empty(), Handle::try_current()) else { return };
        let connections = self.clone();
        runtime.spawn(async move {
            let (_ticket, ended, begins) = Ticket::take(connections.parked(), sent, true);
            if begins {
                tokio::spawn(ask(connections.clone()));
            }
            // The sender is dropped.
            let _ = ended.await;
            drop(claims);
        });
    }
}

/// Asks the server which statements have ended, until no connection is parked.
async fn ask<D: Driver>(connections: Connections<D>) {
    let parked = Arc::clone(connections.parked());
    let asking = Asking(&parked);
    let [mut pause, longest] = PAUSES;
    let mut is_told = false;
    while let Some((places, age)) = parked.asks() {
        match timeout(QUESTION, connections.driver().ask_apart(AS_LOGIN, &running(age))).await {
            Ok(Ok(running)) => {
                parked.found(&places, usize::try_from(running).unwrap_or_default());
                if running > 0 && !is_told {
                    is_told = true;
                    let connections = places.len();
                    tracing::warn!(
                        connections,
                        "statements that were given up still run in the server, and keep their connections from the pool: commits may be \
                         waiting for a synchronous standby"
                    );
                }
            }
            Ok(Err(error)) => tracing::debug!(error = %Chain(&error), "it is not known which statements still run"),
            Err(_) => tracing::debug!("the server does not say in time which statements still run"),
        }
        if timeout(pause, parked.came.notified()).await.is_ok() {
            [pause, _] = PAUSES;
        } else {
            pause = (2 * pause).min(longest);
        }
    }
    mem::forget(asking);
}

/// If it is dropped before the end, with its runtime, another task may ask.
struct Asking<'a>(&'a Parked);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.state().is_asking = false;
    }
}

/// Counts the store's statements, of all processes that log in as this one does, that were under way for more than half of this time: they
/// may have been sent late.
pub(super) fn running(age: Duration) -> String {
    format!(
        r"SELECT pg_catalog.count(*)
          FROM pg_catalog.pg_stat_activity a
          WHERE a.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND a.usename OPERATOR(pg_catalog.=) session_user
            AND a.state OPERATOR(pg_catalog.=) 'active' AND a.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()
            AND a.query OPERATOR(pg_catalog.~*) 'idempotency|commit'
            AND pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) a.query_start)
                OPERATOR(pg_catalog.>=) {}",
        age.as_secs_f64() / 2.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_given_up_only_if_no_statement_runs_that_may_be_its_own() {
        let parked = Parked::default();
        let sent = Instant::now();
        let places = [true, false, false].map(|of_claim| Ticket::take(&parked, sent, of_claim));
        let (asked_for, _) = parked.asks().expect("three places");
        let left = |running| {
            parked.found(&asked_for, running);
            parked.state().places.len()
        };
        assert_eq!(left(1), 2, "the claim, and one of two connections");
        assert!(parked.state().places.values().any(|place| place.of_claim));
        assert_eq!(left(0), 0);
        drop(places);
    }
}
