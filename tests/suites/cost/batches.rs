//! Shared statements: their number, and the cost of a call that waits for one.

use std::{pin::pin, time::Duration};

use deadpool_postgres::Pool;
use futures_util::{future::join_all, poll};
use protobuf_canonical::RequestHash;
use tokio::{
    runtime::{self, Runtime},
    task::yield_now,
};
use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    store::{
        BeginOutcome, CallSession, Claim, ClaimOutcome, CompleteOutcome, Completion, PostgresStore, Reservation,
        Store as _, StoredResponse, TransactionOptions,
    },
};
use tonic_idempotency_tests::{Database, Proxy};

use crate::prelude::*;

/// The calls at once, and the statements that they need: one for the first call, which goes alone, and one for every 64
/// others, the default maximum. If a statement takes long, up to three more calls go alone. A large statement may count
/// twice, if the proxy reads its second half after the end of the previous answer.
const CALLS: usize = 257;
const STATEMENTS: usize = 1 + (CALLS - 1) / 64;
const MOST_STATEMENTS: usize = 2 * STATEMENTS + 3;

/// The calls that wait at once, and the bytes that each may hold, with its future.
const WAITING: usize = 2000;
const HELD: f64 = 14_000.0;

/// The calls that leave, and the bytes that they may hold until their turn would have come: as many as the longest
/// queue has.
const LEAVING: usize = 20_000;
const MOST_HELD: i64 = 4 << 20;

/// How often allocations are measured.
const ROUNDS: usize = 20;

/// The allocations of a claim, a completion and a replay.
const BOUNDS: [u64; 3] = [36, 22, 37];

const HOUR: Duration = Duration::from_secs(3600);

/// A store on one thread, so that all allocations are the store's, with its connections behind a proxy.
struct Stage {
    runtime: Runtime,
    database: Database,
    proxy: Proxy,
    store: PostgresStore,
}

impl Stage {
    fn new() -> Self {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (database, proxy, pool) = runtime.block_on(async {
            let database = Database::new().await;
            // Only one connection, because each prepares all statements.
            let (proxy, pool) = database.pool_through_proxy(1).await;
            drop(pool.get().await.expect("a connection"));
            (database, proxy, pool)
        });
        let store = store(pool);
        Self { runtime, database, proxy, store }
    }

    /// Runs the future, and returns its round trips.
    fn trips<T>(&self, future: impl Future<Output = T>) -> (T, usize) {
        let before = self.proxy.round_trips();
        let output = self.runtime.block_on(future);
        (output, self.proxy.round_trips() - before)
    }

    /// Runs the calls, and returns their round trips. No call gets an answer before all of them wait for one.
    fn trips_together(&self, calls: impl Iterator<Item = impl Future>) -> usize {
        let together = async {
            let mut calls = pin!(join_all(calls));
            self.proxy.hold();
            // The runtime limits the work of one poll. It is enough for at least one of these calls.
            for _ in 0..CALLS {
                assert!(poll!(&mut calls).is_pending(), "no call has an answer");
                yield_now().await;
            }
            self.proxy.release();
            calls.await
        };
        self.trips(together).1
    }

    /// The number of keys that have a row.
    fn rows(&self) -> i64 {
        let count = async {
            let owner = self.database.owner().await;
            let row = owner.query_one("SELECT count(*) FROM tenant.idempotency_keys", &[]).await;
            row.expect("the database answers").get(0)
        };
        self.runtime.block_on(count)
    }

    /// The fewest allocations of several runs.
    fn allocations(&self, run: impl AsyncFn(usize)) -> u64 {
        let counts = (0..ROUNDS).map(|round| {
            let measured = allocation_counter::measure(|| self.runtime.block_on(run(round)));
            measured.count_total
        });
        counts.min().expect("some")
    }

    async fn acquire(&self, claim: &Claim) {
        let outcome = self.store.claim(claim).await;
        assert!(matches!(outcome, Ok(ClaimOutcome::Acquired)), "{outcome:?}");
    }

    async fn complete(&self, claim: &Claim) {
        let completion =
            Completion { response: StoredResponse::message(&b"done"[..]), resource: None, retention: HOUR };
        let outcome = self.store.complete(&claim.reservation, &completion).await;
        assert!(matches!(outcome, Ok(CompleteOutcome::Completed)), "{outcome:?}");
    }

    async fn replay(&self, claim: &Claim) {
        let outcome = self.store.claim(&again(claim)).await;
        assert!(matches!(outcome, Ok(ClaimOutcome::Replay(_))), "{outcome:?}");
    }

    async fn replay_in_transactional_mode(&self, claim: &Claim) {
        let outcome = self.store.begin(&again(claim), TransactionOptions::default()).await;
        assert!(matches!(outcome, Ok(BeginOutcome::Refused(ClaimOutcome::Replay(_)))), "{outcome:?}");
    }
}

fn store(pool: Pool) -> PostgresStore {
    PostgresStore::new(pool, organization::resource_types()).timeout(Duration::from_secs(60))
}

fn claim() -> Claim {
    Claim {
        reservation: Reservation::new(OwnerId::new(Uuid::new_v4()), KeyId::new(Uuid::new_v4())),
        session: CallSession::default(),
        procedure: "/organization.v1.ProjectService/CreateProject".to_owned(),
        request: RequestHash::from([7; 32]).into(),
        lease: HOUR,
        retention: HOUR,
        on_lease_ended: LeasePolicy::Rerun,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: None,
    }
}

/// The same call with another token.
fn again(claim: &Claim) -> Claim {
    let Reservation { owner, key, .. } = claim.reservation;
    Claim { reservation: Reservation::new(owner, key), ..claim.clone() }
}

#[test]
fn are_one_for_many_calls_at_once() {
    let stage = Stage::new();
    let mut trips = Vec::new();
    // The first round prepares the statements, and shows what to expect.
    for _ in 0..2 {
        let claims: Vec<Claim> = (0..CALLS).map(|_| claim()).collect();
        let claimed = stage.trips_together(claims.iter().map(|claim| stage.acquire(claim)));
        let completed = stage.trips_together(claims.iter().map(|claim| stage.complete(claim)));
        stage.runtime.block_on(join_all(claims.iter().map(|claim| stage.replay(claim))));
        let replayed = stage.trips_together(claims.iter().map(|claim| stage.replay(claim)));
        let begun = stage.trips_together(claims.iter().map(|claim| stage.replay_in_transactional_mode(claim)));
        trips = vec![claimed, completed, replayed, begun];
        // After some first calls, the store expects first calls again.
        stage.runtime.block_on(join_all((0..CALLS).map(|_| async { stage.acquire(&claim()).await })));
    }
    let expected = STATEMENTS..=MOST_STATEMENTS;
    let within = trips.iter().all(|trips| expected.contains(trips));
    assert!(within, "{trips:?} for claims, completions, replays, and replays in transactional mode");
}

#[test]
fn of_one_call_at_a_time_are_as_many_as_alone() {
    let mut stage = Stage::new();
    let mut trips = Vec::new();
    for max_batch in [1, 64] {
        stage.store = stage.store.clone().max_batch(max_batch);
        // The first round prepares the statements.
        for round in 0..2 {
            let calls: Vec<Claim> = (0..8).map(|_| claim()).collect();
            let each = |what: &str, counts: Vec<usize>| {
                let most = counts.iter().max().copied();
                (max_batch, what.to_owned(), most.unwrap_or_default())
            };
            // After some first calls, the store expects first calls, whatever it expected before.
            stage.runtime.block_on(async {
                for _ in 0..16 {
                    stage.acquire(&claim()).await;
                }
            });
            let claimed = calls.iter().map(|call| stage.trips(stage.acquire(call)).1).collect();
            let completed = calls.iter().map(|call| stage.trips(stage.complete(call)).1).collect();
            let replayed = calls.iter().map(|call| stage.trips(stage.replay(call)).1).collect();
            if round == 1 {
                trips.extend([each("claim", claimed), each("complete", completed)]);
                trips.push(each("replay", replayed));
            }
        }
    }
    assert!(trips.iter().all(|(.., most)| *most == 1), "{trips:?}");
}

/// The bounds were measured for a call that goes alone, by the single statement, with nothing to share.
#[test]
fn of_a_call_that_goes_alone_do_not_allocate_more() {
    let stage = &Stage::new();
    let claimed = stage.allocations(async |_| stage.acquire(&claim()).await);
    let acquired: Vec<Claim> = (0..ROUNDS).map(|_| claim()).collect();
    stage.runtime.block_on(async {
        for claim in &acquired {
            stage.acquire(claim).await;
        }
    });
    let completed = stage.allocations(async |round| stage.complete(&acquired[round]).await);
    let replayed = stage.allocations(async |_| stage.replay(&acquired[0]).await);
    let counts = [claimed, completed, replayed];
    let within = counts.iter().zip(BOUNDS).all(|(count, bound)| *count <= bound);
    assert!(within, "{counts:?} allocations of a claim, a completion and a replay, and the bounds are {BOUNDS:?}");
}

/// Some calls wait for the next statement while the first is under way; many others leave at once.
#[test]
fn that_calls_wait_for_cost_little_memory_and_none_for_calls_that_have_left() {
    let stage = &Stage::new();
    let rows_before = stage.rows();
    let first = claim();
    let waiting: Vec<Claim> = (0..WAITING).map(|_| claim()).collect();
    stage.proxy.hold();
    let mut first_call = Box::pin(stage.acquire(&first));
    stage.runtime.block_on(async { assert!(first_call.as_mut().now_or_never().is_none(), "it has no answer") });

    let mut calls = Vec::with_capacity(waiting.len());
    let wait = async {
        for claim in &waiting {
            let mut call = Box::pin(stage.acquire(claim));
            assert!(call.as_mut().now_or_never().is_none(), "it waits");
            calls.push(call);
        }
    };
    let held = allocation_counter::measure(|| stage.runtime.block_on(wait)).bytes_current as f64 / WAITING as f64;
    assert!(held <= HELD, "{held} bytes for each call that waits");
    drop(calls);

    let leave = async {
        for _ in 0..LEAVING {
            assert!(Box::pin(stage.acquire(&claim())).as_mut().now_or_never().is_none(), "it waits");
        }
    };
    let held = allocation_counter::measure(|| stage.runtime.block_on(leave)).bytes_current;
    assert!(held <= MOST_HELD, "{held} bytes for calls that have left");

    stage.proxy.release();
    stage.runtime.block_on(first_call);
    stage.runtime.block_on(stage.acquire(&claim()));
    assert_eq!(stage.rows() - rows_before, 2, "no call that has left is carried out");
}
