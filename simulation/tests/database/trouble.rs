//! Faults of the simulated database, and that a seed repeats them.

use std::time::Duration;

use simulation::{
    database::{Database, Open, Pool, SimulatedStore, Trouble, resource_types},
    world::{Host, Keeps, Link, Process, Weather, World, run},
};
use tokio::time::sleep;
use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    store::{
        BeginOutcome, CallSession, Claim, ClaimOutcome, Completion, RequestHash, Reservation, Store, StoreErrorKind,
        StoreTransaction, StoredResponse, TransactionOptions,
        driver::{ConnectionPool as _, Exclusive, Session as _},
    },
};
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3600);

pub(super) struct Server {
    database: Database,
    host: Host,
    link: Link,
    process: Process,
    pub(super) store: SimulatedStore,
}

impl Server {
    pub(super) fn start(world: &World, database: &Database, name: &str) -> Self {
        let host = Host::new(world, name);
        let (process, link) = (host.start(), Link::new(world.random(name)));
        let store = SimulatedStore::new(database.pool(&process, link.clone(), 6), resource_types());
        Self { database: database.clone(), host, link, process, store }
    }

    async fn begin(&self, claim: &Claim) -> Option<Box<dyn StoreTransaction>> {
        match self
            .store
            .begin(claim, TransactionOptions { idle: Duration::from_secs(30), ..TransactionOptions::default() })
            .await
        {
            Ok(BeginOutcome::Open { transaction, .. }) => Some(transaction),
            _ => None,
        }
    }
}

pub(super) fn claim(owner: u64, key: u64) -> Claim {
    let (owner, key) = (OwnerId::new(Uuid::from_u64_pair(1, owner)), KeyId::new(Uuid::from_u64_pair(2, key)));
    Claim {
        reservation: Reservation::new(owner, key),
        session: CallSession::default(),
        procedure: "/shop.v1.Shop/Order".to_owned(),
        request: RequestHash::from([1; 32]).into(),
        lease: Duration::from_secs(20),
        retention: HOUR,
        on_lease_ended: LeasePolicy::Reconcile,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::SameServer,
        resource_type: None,
    }
}

pub(super) fn completion() -> Completion {
    Completion { response: StoredResponse::message("done"), resource: None, retention: HOUR }
}

fn write_effect(
    transaction: &dyn StoreTransaction,
    claim: &Claim,
    call: u64,
) -> impl Future<Output = Result<(), String>> + Send + use<> {
    let mut extensions = http::Extensions::new();
    transaction.hand_out(&mut extensions);
    let Reservation { owner, key, .. } = claim.reservation;
    async move {
        let handle = Exclusive::<Pool>::from_extensions(&extensions).expect("the handle");
        let mut connection = handle.lock().await.map_err(|kind| format!("{kind:?}"))?;
        let written = connection.insert_unique_effect(*owner.as_uuid(), *key.as_uuid(), call).await;
        written.map_err(|error| error.to_string())
    }
}

/// Every kind of trouble at once, for a minute: transactional calls of a few keys, each with an effect, by three servers.
async fn live_through_everything(world: World) -> (Open, usize, Vec<String>) {
    let database = Database::new(&world);
    let servers: Vec<_> = ["one", "two", "three"].map(|name| Server::start(&world, &database, name)).into();
    let rare = 0.01;
    let trouble = Trouble {
        latency: [Duration::from_micros(100), Duration::from_millis(20)],
        commit: [Duration::from_micros(100), Duration::from_millis(300)],
        status: [Duration::ZERO, Duration::from_millis(300)],
        status_error: rare,
        deadlock: rare,
        serialization: rare,
        canceled: rare,
        lock_not_available: rare,
        disk_full: rare,
        too_many_connections: rare,
        after_effect: rare,
        pooler_changes: rare,
        pooler_drops: rare,
        left_open: rare,
        stale_plan: rare,
        cut: rare,
    };
    database.add(trouble);
    let weather = Weather { cut: 0.005, silence: 0.002, ..Weather::CLEAR };
    let split = Weather { is_split: true, ..Weather::CLEAR };
    servers.iter().for_each(|server| server.link.add(weather));
    let mut random = world.random("test");
    let mut calls = Vec::new();
    for round in 0..300 {
        let server = random.one_of(&servers);
        match random.number(0..=99) {
            0 => database.end_sessions(),
            1 => database.restart(Duration::from_secs(1)),
            2 => server.link.cut(),
            3 => server.link.add(split),
            4 => server.process.pause(),
            5 => database.fail_over(0, Duration::from_secs(1)),
            _ => {
                server.link.remove(split);
                server.process.resume();
            }
        }
        let (store, claim) = (server.store.clone(), claim(random.number(0..=1), round / 3));
        let server = Server {
            store,
            database: database.clone(),
            host: server.host.clone(),
            link: server.link.clone(),
            process: server.process.clone(),
        };
        calls.push(tokio::spawn(async move {
            if round % 2 == 0 {
                let Some(transaction) = server.begin(&claim).await else { return };
                if write_effect(&*transaction, &claim, round).await.is_ok() {
                    let _ = transaction.commit(Some(completion())).await;
                }
            } else if let Ok(ClaimOutcome::Acquired) = server.store.claim(&claim).await {
                let _ = server.store.complete(&claim.reservation, &completion()).await;
            }
        }));
        sleep(random.duration(Duration::from_millis(1)..=Duration::from_millis(500))).await;
    }
    database.remove(trouble);
    for server in &servers {
        server.link.remove(weather);
        for _ in 0..300 {
            server.link.remove(split);
            server.process.resume();
        }
    }
    for call in calls {
        call.await.expect("a call");
    }
    sleep(Duration::from_secs(120)).await;
    let effects = database.effects();
    for effect in &effects {
        let same = effects.iter().filter(|other| (other.owner, other.key) == (effect.owner, effect.key)).count();
        assert_eq!(same, 1, "{effect:?}");
        let record = database.records().into_iter().find(|it| (it.owner, it.key) == (effect.owner, effect.key));
        assert_eq!(record.map(|record| record.state), Some("completed"), "{effect:?}");
    }
    (database.open(), effects.len(), world.trace().lines())
}

#[test]
fn a_seed_repeats_everything_and_nothing_is_held_afterwards() {
    let mut traces = Vec::new();
    for seed in 0..8 {
        let [one, other] = [(); 2].map(|()| run(seed, Keeps::Lines, live_through_everything));
        let ((open, effects, lines), others) = (one, other.2);
        for (line, other) in lines.iter().zip(&others) {
            assert_eq!(line, other, "seed {seed}");
        }
        assert_eq!(lines.len(), others.len(), "seed {seed}");
        assert_eq!(Open { sessions: 0, ..open }, Open::default(), "seed {seed}");
        assert!(effects > 20, "seed {seed}: {effects} effects");
        traces.push(lines);
    }
    traces.dedup();
    assert_eq!(traces.len(), 8);
}

#[test]
fn a_killed_process_has_its_transaction_rolled_back() {
    run(1, Keeps::Nothing, |world| async move {
        let server = Server::start(&world, &Database::new(&world), "one");
        let held = claim(1, 1);
        let _transaction = server.begin(&held).await.expect("a transaction");
        assert_eq!(server.database.open().advisory_locks, 1);
        server.host.kill();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(server.database.open(), Open::default());
    });
}

#[test]
fn a_transaction_behind_a_split_network_is_rolled_back_when_it_is_idle_for_too_long() {
    run(1, Keeps::Nothing, |world| async move {
        let server = Server::start(&world, &Database::new(&world), "one");
        let _transaction = server.begin(&claim(1, 1)).await.expect("a transaction");
        server.link.add(Weather { is_split: true, ..Weather::CLEAR });
        sleep(Duration::from_secs(29)).await;
        assert_eq!(server.database.open().transactions, 1);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(server.database.open().transactions, 0);
    });
}

#[test]
fn two_transactions_that_wait_for_each_other_are_a_deadlock() {
    run(1, Keeps::Nothing, |world| async move {
        let server = Server::start(&world, &Database::new(&world), "one");
        let (one, other) = (claim(1, 1), claim(2, 2));
        let (first, second) = (server.begin(&one).await.expect("one"), server.begin(&other).await.expect("other"));
        write_effect(&*first, &one, 1).await.expect("the first");
        write_effect(&*second, &other, 2).await.expect("the second");
        let (waits, loses) = tokio::join!(
            async {
                let waited = write_effect(&*first, &one, 2).await;
                (waited, first.commit(Some(completion())).await.is_ok())
            },
            async {
                sleep(Duration::from_secs(1)).await;
                assert_eq!(server.database.open().waiting, 1);
                let lost = write_effect(&*second, &other, 1).await;
                assert!(second.is_in_conflict(None) || lost.is_err());
                second.roll_back().await;
                lost
            },
        );
        assert_eq!(waits, (Ok(()), true));
        assert!(loses.is_err_and(|error| error.contains("40P01")));
        assert_eq!(server.database.effects().len(), 2);
    });
}

#[test]
fn a_failover_loses_the_last_commits_and_old_sessions_answer_nothing() {
    run(1, Keeps::Nothing, |world| async move {
        let server = Server::start(&world, &Database::new(&world), "one");
        for key in 0..3 {
            let claim = claim(1, key);
            let transaction = server.begin(&claim).await.expect("a transaction");
            write_effect(&*transaction, &claim, key).await.expect("an effect");
            transaction.commit(Some(completion())).await.expect("a commit");
        }
        server.database.fail_over(2, Duration::from_secs(1));
        assert_eq!((server.database.effects().len(), server.database.records().len()), (1, 1));
        sleep(Duration::from_secs(1)).await;
        assert!(matches!(server.store.claim(&claim(1, 2)).await, Ok(ClaimOutcome::Acquired)));
    });
}

#[test]
fn a_server_that_is_down_cannot_be_asked() {
    run(1, Keeps::Nothing, |world| async move {
        let server = Server::start(&world, &Database::new(&world), "one");
        server.database.restart(HOUR);
        let error = server.store.claim(&claim(1, 1)).await.expect_err("it is down");
        assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    });
}

/// The pool has a connection again when the first attempt, whose COMMIT hangs, has been given up; and the attempt in its place is refused.
#[test]
fn a_refusal_in_place_of_an_attempt_that_was_given_up_leaves_open_how_that_ends() {
    run(1, Keeps::Nothing, |world| async move {
        let (database, host) = (Database::new(&world), Host::new(&world, "one"));
        let pool = database.pool(&host.start(), Link::new(world.random("one")), 2);
        let store = SimulatedStore::new(pool.clone(), resource_types()).timeout(Duration::from_secs(4));
        let other = pool.acquire().await.expect("a connection");
        database.add(Trouble { commit: [Duration::from_secs(10); 2], ..Trouble::NONE });
        let refused = async {
            sleep(Duration::from_millis(3_500)).await;
            database.add(Trouble { lock_not_available: 1.0, ..Trouble::NONE });
            drop(other);
        };
        let claim = Claim { effect: EffectPolicy::Anywhere, ..claim(1, 1) };
        let (answer, ()) = tokio::join!(store.claim(&claim), refused);
        let error = answer.expect_err("it is refused");
        assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Overloaded, true), "{error:?}");
        assert!(format!("{error:?}").contains("55P03"), "{error:?}");
        sleep(Duration::from_secs(10)).await;
        assert!(database.is_reserved(*claim.reservation.owner.as_uuid(), *claim.reservation.key.as_uuid()));
    });
}
