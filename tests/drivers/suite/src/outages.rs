//! Servers that are away, or have no connections left.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{net::TcpListener, time::Instant};
use tonic_idempotency::store::{ClaimOutcome, Store as _, StoreErrorKind};
use tonic_idempotency_tests::Database;

use crate::{Stack, new_claim, pool_at, pool_with, store};

/// The greatest number of logins in one second.
const LOGINS: usize = 20;

/// How long the claims of the test may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A server that ends each connection at once, but the last ones before the claims are given up: these are not answered, for less time than
/// what counts as a failure. Another login is tried every now and then, not by each call, also when all are given up at once.
pub async fn cause_few_logins_whatever_number_of_calls_wait<S: Stack>() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (logins, held) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Some(Vec::new()))));
    let (seen, holds, begun) = (Arc::clone(&logins), Arc::clone(&held), Instant::now());
    let ending = tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            seen.lock().expect("no panic").push(Instant::now());
            if let Some(held) = holds.lock().expect("no panic").as_mut()
                && begun.elapsed() > TIMEOUT - Duration::from_millis(250)
            {
                held.push(connection);
            }
        }
    });
    let pool = pool_at::<S>(format!("postgres://nobody:nothing@127.0.0.1:{port}/nowhere?sslmode=disable"), 8, "");
    let store = store::<S>(pool).timeout(TIMEOUT);
    let claims = (0..1_000).map(|_| async { store.claim(&new_claim()).await.expect_err("no server").kind() });
    assert!(join_all(claims).await.iter().all(|kind| *kind == StoreErrorKind::Unreachable));
    drop(held.lock().expect("no panic").take());
    let later = Instant::now();
    store.claim(&new_claim()).await.expect_err("no server");
    assert!(later.elapsed() < Duration::from_secs(2), "later calls do not wait for the whole timeout");
    ending.abort();
    let logins = logins.lock().expect("no panic");
    for first in logins.iter() {
        let within = logins.iter().filter(|at| (*first..*first + Duration::from_secs(1)).contains(at)).count();
        assert!(within <= LOGINS, "{within} logins in a second");
    }
    assert!(logins.len() > 4, "{} logins", logins.len());
}

pub async fn of_a_role_with_few_connections_let_all_calls_pass<S: Stack>() {
    let database = Database::new().await;
    let full = "DO $$ BEGIN
                    IF (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) > 3 THEN
                        RAISE 'too many connections for role' USING ERRCODE = '53300';
                    END IF;
                END $$";
    let store = store::<S>(pool_with::<S>(&database, 8, full)).timeout(Duration::from_secs(20));
    let claims = (0..60).map(|_| async { store.claim(&new_claim()).await.expect("a connection gets free") });
    assert!(join_all(claims).await.iter().all(|outcome| matches!(outcome, ClaimOutcome::Acquired)));
}
