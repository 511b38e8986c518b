//! Operations on one key at once, on PostgreSQL and on the simulated database: some order of them, each of which changes the key as the store
//! in memory does, explains all answers and the row that is left.
//!
//! Several keys live at a time, so that statements are shared. Leases and retentions are zero or hours, so that time changes nothing. An
//! operation that has lost against another transaction, or waited too long, has changed nothing.

mod counted;
mod explanation;
mod key;
mod model;
mod operation;
mod postgres;
mod simulated;
mod subject;

use std::{
    cell::{Cell, RefCell},
    env,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use simulation::world::{Keeps, run};
use tokio::sync::Semaphore;
use tonic_idempotency::{KeyId, OwnerId, store::Store as _};
use uuid::Uuid;

use self::{
    key::{Key, TRANSACTIONS},
    operation::Draws,
    postgres::Postgres,
    simulated::Simulated,
    subject::Subject,
};

/// The keys of a seed, those that live at a time, their owners, and those that may have transactions.
const KEYS: u64 = 400;
const AT_A_TIME: usize = 60;
const OWNERS: u64 = 20;
const WITH_TRANSACTIONS: usize = CONNECTIONS * 3 / 4 / TRANSACTIONS;

/// The connections of each store. A quarter is kept from transactions.
const CONNECTIONS: usize = 48;

/// The time that an operation has on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The operations of a run of some seconds, and of one with new seeds.
const OPERATIONS: usize = 4_000;
const AT_NIGHT: usize = 100_000;

/// How often each statement has to be sent, and each thing to happen, in ten thousand operations; at least once.
///
/// Without those that have nothing to do with the row of a key: `allow`, `begin_without_key` and `status`.
const LEAST: [(&str, u64); 25] = [
    ("abandon", 100),
    ("abandoned", 20),
    ("ask", 0),
    ("begin", 40),
    ("claim", 300),
    ("commit", 10),
    ("committed", 1),
    ("complete", 300),
    ("extend", 100),
    ("held with 1 waiting", 10),
    ("held with 2 waiting", 5),
    ("held with 3 waiting", 1),
    ("look", 300),
    ("look of several", 40),
    ("look_up", 80),
    ("record", 1),
    ("record project_id", 5),
    ("record resource_name", 1),
    ("release", 200),
    ("sweep", 60),
    ("take", 50),
    ("who", 20),
    ("write_many", 40),
    ("write_many of claims and outcomes", 15),
    ("write_many of several", 40),
];

#[test]
fn are_explained_on_postgresql() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async { live_at_length(&Postgres::start().await, bounds()).await });
}

#[test]
fn are_explained_on_the_simulated_database() {
    let bounds = bounds();
    run(bounds.0, Keeps::Nothing, move |world| async move { live_at_length(&Simulated::start(&world), bounds).await });
}

/// Returns the first seed, and how many operations are enough.
fn bounds() -> (u64, usize) {
    match env::var("IDEMPOTENCY_TEST_SEED") {
        Ok(seed) => (seed.parse().expect("IDEMPOTENCY_TEST_SEED is a number"), AT_NIGHT),
        Err(_) => (1, OPERATIONS),
    }
}

/// Lets the keys of one seed after the other live, until the operations are enough.
async fn live_at_length(subject: &impl Subject, (mut seed, enough): (u64, usize)) {
    let mut operations = 0;
    while operations < enough {
        operations = live(subject, seed, operations).await;
        seed += 1;
    }
    check(subject, operations);
}

/// Lets the keys of a seed live. Returns the number of operations, with those before.
async fn live<S: Subject>(subject: &S, seed: u64, mut operations: usize) -> usize {
    let tickets = &Semaphore::new(WITH_TRANSACTIONS);
    let keys = (0..KEYS).map(|number| {
        let draws = Draws {
            random: fastrand::Rng::with_seed(seed.wrapping_mul(KEYS).wrapping_add(number)),
            owner: OwnerId::new(Uuid::from_u64_pair(seed, number % OWNERS)),
            // Two owners have it.
            key: KeyId::new(Uuid::from_u64_pair(seed, number / 2)),
            resources: &subject.servers().resources,
        };
        let (draws, clock, open, transactions) =
            (RefCell::new(draws), Cell::new(0), RefCell::default(), RefCell::default());
        let key = Key { subject, tickets, draws, clock, open, transactions };
        async move { (number, key.live().await) }
    });
    let mut waiting = keys.into_iter();
    let mut living: FuturesUnordered<_> = waiting.by_ref().take(AT_A_TIME).collect();
    while let Some((number, lived)) = living.next().await {
        operations +=
            lived.unwrap_or_else(|story| panic!("seed {seed}, key {number}, after {operations} operations: {story}"));
        living.extend(waiting.next());
    }
    // What has expired is swept, and nothing else.
    let (mut left, mut swept) = (subject.expired().await, u64::MAX);
    while swept > 0 {
        swept = subject.servers().stores[0].sweep(100).await.expect("a sweep");
        left = left.checked_sub(swept).expect("only what has expired");
    }
    assert_eq!(left, 0, "seed {seed}: rows that have expired");
    operations
}

fn check(subject: &impl Subject, operations: usize) {
    let counts = subject.servers().counts.all();
    for (name, least) in LEAST {
        let count = counts.get(name).copied().unwrap_or_default();
        let least = (least * operations as u64 / 10_000).max(1);
        assert!(count >= least, "{name}: {count} times in {operations} operations: {counts:#?}");
    }
}
