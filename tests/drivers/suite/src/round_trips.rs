//! Round trips to PostgreSQL of whole calls, compared with the same handler without the layer.

use std::fmt;

use tonic::{Code, Status};
use tonic_idempotency::policy::ProcedureBuilder;
use tonic_idempotency_tests::{Database, Proxy};

use crate::{Call, Service, Stack, all_are_back, fill, pool_through_proxy};

/// The round trips of a pool of one connection, which is open already.
pub struct RoundTrips<S: Stack> {
    /// The pool.
    pub pool: S::Pool,
    proxy: Proxy,
    before: usize,
}

impl<S: Stack> RoundTrips<S> {
    /// Makes the pool.
    pub async fn new(database: &Database) -> Self {
        let (proxy, pool) = pool_through_proxy::<S>(database, 1).await;
        fill::<S>(&pool, 1).await;
        let before = proxy.round_trips();
        Self { pool, proxy, before }
    }

    /// Returns the round trips of some work, until its connection is back in the pool: the least of three times. Requests that a client sends
    /// together may arrive apart, with an answer in between that the client did not wait for, on a busy machine.
    pub async fn of(&mut self, work: impl AsyncFn()) -> usize {
        self.take().await;
        let mut least = usize::MAX;
        for _ in 0..3 {
            work().await;
            least = least.min(self.take().await);
        }
        least
    }

    /// Returns the round trips since the last look, once the connection is back in the pool.
    async fn take(&mut self) -> usize {
        all_are_back::<S>(&self.pool).await;
        let now = self.proxy.round_trips();
        now - std::mem::replace(&mut self.before, now)
    }
}

impl<S: Stack> fmt::Debug for RoundTrips<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoundTrips").field("before", &self.before).finish_non_exhaustive()
    }
}

/// How many round trips a driver takes, when the statements of the store are prepared.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Only the handler: its transaction, the setting of the user, and an insert.
    pub bare: usize,
    /// Of these, the setting of the user.
    pub user: usize,
    /// A call with a key.
    pub keyed: usize,
    /// The most that its replay takes, with the rollback behind the answer.
    pub replayed: usize,
    /// A call without a key.
    pub without_key: usize,
    /// A call with a key of a procedure whose errors may be final.
    pub with_savepoint: usize,
    /// The same, if it ends in a final error.
    pub final_error: usize,
    /// Round trips in the background, each time a connection returns to its pool.
    pub returned: usize,
}

/// The statements of the store are prepared.
pub async fn are_at_most_one_more_than_those_of_the_handler_alone<S: Stack>() {
    let expected = S::ROUND_TRIPS;
    let database = Database::new().await;
    let mut count = RoundTrips::<S>::new(&database).await;
    let pool = count.pool.clone();
    let service = Service::inserting::<S>(&database, pool.clone()).await;
    let user = service.user.expect("a user");
    // The statements are prepared once for each connection.
    S::bare(&pool, user).await.expect("a project");
    let other = service.with_new_key();
    other.create("shop").await.expect("a call");
    other.create("shop").await.expect("a replay");
    service.with_key(None).create("shop").await.expect("a call");

    let bare = async || {
        S::bare(&pool, user).await.expect("a project");
    };
    let bare = count.of(bare).await;
    assert_eq!(bare, expected.bare + expected.returned, "the handler alone");
    let keyed = count.of(async || drop(service.with_new_key().create("shop").await.expect("a call"))).await;
    assert_eq!(keyed, expected.keyed + expected.returned, "a call with a key");
    assert!(expected.keyed <= expected.bare - expected.user + 1, "{expected:?}");
    service.create("shop").await.expect("a call");
    let replayed = count.of(async || drop(service.create("shop").await.expect("a replay"))).await;
    assert!(replayed <= expected.replayed + expected.returned, "a replay took {replayed}");
    let without_key = count.of(async || drop(service.with_key(None).create("shop").await.expect("a call"))).await;
    assert_eq!(without_key, expected.without_key + expected.returned, "a call without a key");
}

/// A savepoint, and the rollback to it.
pub async fn are_more_with_final_errors<S: Stack>() {
    let expected = S::ROUND_TRIPS;
    let database = Database::new().await;
    let mut count = RoundTrips::<S>::new(&database).await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, count.pool.clone(), describe, |call: Call<S>| async move {
        let project = call.insert().await?;
        if call.name == "final" { Err(Status::failed_precondition("never")) } else { Ok(project) }
    })
    .await;
    service.with_new_key().create("shop").await.expect("a call");
    let succeeds = count.of(async || drop(service.with_new_key().create("shop").await.expect("a call"))).await;
    assert_eq!(succeeds, expected.with_savepoint + expected.returned, "a call that succeeds");
    let fails = count.of(async || drop(service.with_new_key().create("final").await.expect_err("it fails"))).await;
    assert_eq!(fails, expected.final_error + expected.returned, "a call that fails");
}
