//! Parks connections whose statements were given up, and which may still write.
//!
//! Such a statement is not cancelled: a COMMIT that waits for a synchronous standby would succeed only on the primary. If its connection
//! were closed, its process would go on, perhaps for hours, and the pool would open further connections until the server has none left. So
//! the connection keeps its place in the pool until it is answered; or until the server, asked on a separate connection, no longer has a
//! statement that is so old: then the answer was lost on its way.

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout},
};

use super::{
    connection::Connections,
    parked_connections::{InquiryTask, Ticket},
};
use crate::{
    pause::Pauses,
    store::sql::{
        answers::SentClaim,
        driver::{Connection as _, ConnectionPool},
        statements::running,
    },
    telemetry::Chain,
};

/// The pauses after questions. After the shortest, a further connection makes them begin again.
const SHORTEST: Duration = Duration::from_millis(50);
const PAUSES: Pauses = Pauses::new(SHORTEST, Duration::from_secs(1));

/// The longest time that a question may take.
const QUESTION: Duration = Duration::from_secs(2);

/// Begins a transaction as the login, since its statements are shown only to that one, and not to a role that it may have set. The role is reset only for
/// the transaction: a pooler gives the session to others after it. A transaction whose connection falls silent ends by itself, after
/// as long as a question may take.
const AS_LOGIN: &str = "BEGIN READ ONLY; SET LOCAL ROLE NONE; SET LOCAL idle_in_transaction_session_timeout = '2s'";

impl<D: ConnectionPool> Connections<D> {
    /// Keeps a connection on which a statement was sent at that time, until it is answered. Closes the connection and returns `None` if the
    /// statement has ended without an answer.
    pub(in crate::store::sql) async fn park(
        &self,
        mut connection: D::Connection,
        sent: Instant,
    ) -> Option<D::Connection> {
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
    pub(in crate::store::sql) fn park_in_background(
        &self,
        connection: D::Connection,
        sent: Instant,
        claims: Vec<SentClaim>,
    ) {
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
    pub(in crate::store::sql) fn outlive(&self, claims: Vec<SentClaim>, sent: Instant) {
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
async fn ask<D: ConnectionPool>(connections: Connections<D>) {
    let parked = Arc::clone(connections.parked());
    let asking = InquiryTask::new(&parked);
    let mut pauses = PAUSES;
    let mut is_told = false;
    while let Some((places, age)) = parked.asks() {
        let answered = match timeout(QUESTION, connections.driver().ask_apart(AS_LOGIN, &running(age))).await {
            Ok(Ok(answer)) => {
                let (running, wait_events) = answer.split_once(' ').unwrap_or((&answer, "none"));
                let running = running.parse().unwrap_or(usize::MAX);
                parked.found(&places, running);
                if running > 0 && !is_told {
                    is_told = true;
                    let connections = places.len();
                    tracing::warn!(
                        connections,
                        wait_events,
                        "statements that were given up still run in the server, and keep their connections from the pool; wait_events, of \
                         pg_stat_activity, say what for: IPC SyncRep is a synchronous standby"
                    );
                }
                true
            }
            Ok(Err(error)) => {
                tracing::debug!(error = %Chain(&error), "it is not known which statements still run");
                false
            }
            Err(_) => {
                tracing::debug!("the server does not say in time which statements still run");
                false
            }
        };
        // Each question is a login: a connection that is parked meanwhile waits, and all wait while questions fail.
        sleep(SHORTEST).await;
        let another = async {
            if !answered {
                pending::<()>().await;
            }
            parked.another().await;
        };
        if timeout(pauses.next() - SHORTEST, another).await.is_ok() {
            pauses = PAUSES;
        }
    }
    asking.end();
}
