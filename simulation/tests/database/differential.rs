//! The same random operations on the simulated database and on PostgreSQL: every outcome is the same.

use std::{fmt::Write as _, time::Duration};

use simulation::{
    database::{Database, SimulatedStore, resource_types},
    world::{Host, Link, run},
};
use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    status::{OutboxStatus, Resource},
    store::{
        AbandonedQuery, BeginOutcome, CallSession, Claim, ClaimOutcome, Completion, LookUp, PostgresStore, RequestHash,
        RequestHashes, Reservation, SqlStore, Store, StoreTransaction, StoredMessage, StoredResponse,
        TransactionOptions, driver::Driver,
    },
};
use tonic_idempotency_tests as postgres;
use uuid::Uuid;

const OPERATIONS: usize = 1500;
const PROCEDURES: [&str; 2] = ["/shop.v1.Shop/Order", "/shop.v1.Shop/Pay"];
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn answers_as_postgresql_does() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    for (seed, common_path, max_batch) in [(1, true, 64), (2, true, 1), (3, false, 64)] {
        let (resources, expected) = runtime.block_on(async {
            let database = postgres::Database::new().await;
            let mut resources = Vec::new();
            for status in [None, Some(OutboxStatus::Pending), Some(OutboxStatus::Failed)] {
                resources.push((database.project(status).await, status));
            }
            let store = PostgresStore::new(database.pool(8), resource_types()).timeout(Duration::from_secs(30));
            let store = store.status_timeout(Duration::from_secs(30));
            let owner = database.owner().await;
            let reserve_as_go = async |claim: &Claim| {
                let Reservation { owner: user, key, .. } = claim.reservation;
                let life = claim.retention.max(claim.lease).as_secs_f64();
                let hash = claim.request.canonical().as_bytes().as_slice();
                let insert = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
                              VALUES ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5)) ON CONFLICT DO NOTHING";
                let made =
                    owner.execute(insert, &[key.as_uuid(), user.as_uuid(), &claim.procedure, &hash, &life]).await;
                made.expect("a row") == 1
            };
            let outcomes = outcomes(store.common_path(common_path).max_batch(max_batch), &resources, seed, reserve_as_go);
            let outcomes = outcomes.await;
            (resources, outcomes)
        });
        let simulated = run(seed, false, move |world| async move {
            let database = Database::new(&world);
            resources.iter().for_each(|(resource, status)| database.set_status(&resource.id, *status));
            let (process, link) = (Host::new(&world, "server").start(), Link::new(world.random("link")));
            let store = SimulatedStore::new(database.pool(&process, link, 8), resource_types());
            let store = store.common_path(common_path).max_batch(max_batch);
            outcomes(store, &resources, seed, async |claim: &Claim| database.reserve_as_go(claim).await).await
        });
        for (at, (expected, simulated)) in expected.iter().zip(&simulated).enumerate() {
            assert_eq!(simulated, expected, "seed {seed}, operation {at}");
        }
        let kinds: std::collections::BTreeSet<_> = expected.iter().map(|it| it.split('→').next_back()).collect();
        assert!(kinds.len() > 25, "too few kinds of outcomes: {kinds:#?}");
    }
}

/// Runs random operations, one after the other, and describes each with its outcome.
async fn outcomes<D: Driver>(
    store: SqlStore<D>,
    resources: &[(Resource, Option<OutboxStatus>)],
    seed: u64,
    reserve_as_go: impl AsyncFn(&Claim) -> bool,
) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut reservations: Vec<Reservation> = Vec::new();
    let mut open: Vec<(Reservation, Box<dyn StoreTransaction>)> = Vec::new();
    let mut outcomes = Vec::new();
    for _ in 0..OPERATIONS {
        let mut claim = random_claim(&mut random, seed);
        let known = reservations.len().checked_sub(1 + random.usize(..6)).map(|at| reservations[at]);
        let one = known.filter(|_| random.u8(..8) > 0).unwrap_or(claim.reservation);
        let mut told = String::new();
        let outcome = match random.u8(..32) {
            0..8 => {
                if random.u8(..6) == 0 {
                    claim.reservation = one;
                }
                reservations.push(claim.reservation);
                let outcome = store.claim(&claim).await;
                write!(told, "claim {}", short(&claim)).expect("a text");
                outcome.map(|outcome| describe(&outcome))
            }
            8..13 => {
                let completion = random_completion(&mut random, resources);
                let outcome = store.complete(&one, &completion).await;
                write!(told, "complete {:.4} {completion:?}", one.token).expect("a text");
                outcome.map(|outcome| format!("{outcome:?}"))
            }
            13..15 => {
                let lease = *one_of(&mut random, &[Duration::ZERO, HOUR]);
                write!(told, "extend {:.4} {lease:?}", one.token).expect("a text");
                store.extend(&one, lease).await.map(|outcome| format!("{outcome:?}"))
            }
            15..17 => {
                write!(told, "release {:.4}", one.token).expect("a text");
                store.release(&one).await.map(|outcome| format!("{outcome:?}"))
            }
            17..19 => {
                write!(told, "abandon {:.4}", one.token).expect("a text");
                store.abandon(&one).await.map(|outcome| format!("{outcome:?}"))
            }
            19..22 => {
                let Reservation { owner, key, .. } = one;
                write!(told, "look up {:.4}", key.as_uuid()).expect("a text");
                let look_up = LookUp { owner, key, session: CallSession::default(), with_status: random.bool() };
                let found = store.look_up(&look_up).await;
                found.map(|it| {
                    // In PostgreSQL, only the login that runs a transaction sees when it began. The pool has another role.
                    let created = it.created.is_some() && it.procedure.is_some();
                    let times = [created, it.completed.is_some(), it.expires.is_some()];
                    format!("look up {:?} {:?} {:?} {:?} {times:?}", it.state, it.procedure, it.resource, it.status)
                })
            }
            22..26 if open.len() < 3 => {
                write!(told, "begin {}", short(&claim)).expect("a text");
                reservations.push(claim.reservation);
                let options = TransactionOptions { savepoint: true, ..TransactionOptions::default() };
                match store.begin(&claim, options).await {
                    Ok(BeginOutcome::Open { transaction, taken_over }) => {
                        open.push((claim.reservation, transaction));
                        Ok(format!("open {taken_over}"))
                    }
                    Ok(BeginOutcome::Refused(outcome)) => Ok(format!("begin {}", describe(&outcome))),
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => Err(error),
                }
            }
            22..29 if !open.is_empty() => {
                let (reservation, transaction) = open.swap_remove(random.usize(..open.len()));
                let completion = random_completion(&mut random, resources);
                let completion = (random.u8(..8) > 0).then_some(completion);
                write!(told, "end {:.4} {completion:?}", reservation.token).expect("a text");
                if random.u8(..5) == 0 {
                    transaction.roll_back().await;
                    Ok("rolled back".to_owned())
                } else {
                    transaction.commit(completion).await.map(|outcome| format!("{outcome:?}"))
                }
            }
            29 => {
                told.push_str("reserve as Go");
                Ok(format!("{}", reserve_as_go(&claim).await))
            }
            30 => {
                told.push_str("sweep");
                store.sweep(random.u32(1..4)).await.map(|rows| format!("{rows} rows"))
            }
            _ => {
                let search = AbandonedQuery {
                    procedures: PROCEDURES[..random.usize(1..=2)].iter().map(|&it| it.to_owned()).collect(),
                    lookback: one_of(&mut random, &[None, Some(HOUR)]).to_owned(),
                    max_attempts: random.u32(1..4),
                    batch: random.u32(1..4),
                };
                write!(told, "abandoned {search:?}").expect("a text");
                store.abandoned(&search).await.map(|found| format!("{found:?}"))
            }
        };
        let outcome = outcome.unwrap_or_else(|error| format!("error {:?}", error.kind()));
        outcomes.push(format!("{told} → {outcome}"));
    }
    outcomes
}

fn one_of<'a, T>(random: &mut fastrand::Rng, several: &'a [T]) -> &'a T {
    &several[random.usize(..several.len())]
}

/// Makes a random claim, of one of a few owners and one of a few keys.
fn random_claim(random: &mut fastrand::Rng, seed: u64) -> Claim {
    let few = |random: &mut fastrand::Rng| Uuid::from_u64_pair(seed, random.u64(1..3));
    let (owner, key) = (OwnerId::new(few(random)), KeyId::new(few(random)));
    let hash = |random: &mut fastrand::Rng| RequestHash::from([random.u8(..8) / 6; 32]);
    let canonical = hash(random);
    Claim {
        reservation: Reservation { owner, key, token: Uuid::from_u128(random.u128(..)) },
        session: CallSession::default(),
        procedure: PROCEDURES[usize::from(random.u8(..8) == 0)].to_owned(),
        request: RequestHashes::new(canonical, random.bool().then(|| hash(random))),
        lease: *one_of(random, &[Duration::ZERO, Duration::ZERO, HOUR]),
        retention: *one_of(random, &[Duration::ZERO, HOUR, HOUR, 2 * HOUR]),
        on_lease_ended: *one_of(random, &[LeasePolicy::Reconcile, LeasePolicy::Refuse, LeasePolicy::Rerun]),
        on_foreign_reservation: *one_of(
            random,
            &[ForeignPolicy::InProgress, ForeignPolicy::Reconcile, ForeignPolicy::Rerun],
        ),
        effect: *one_of(random, &[EffectPolicy::Anywhere, EffectPolicy::SameServer]),
        resource_type: one_of(random, &[None, Some("project")]).map(str::to_owned),
    }
}

fn random_completion(random: &mut fastrand::Rng, resources: &[(Resource, Option<OutboxStatus>)]) -> Completion {
    let response = match random.u8(..6) {
        0 => StoredResponse::NotStored,
        1 => StoredResponse::Error("an error".into()),
        2 => StoredResponse::message(""),
        number => StoredResponse::Message(StoredMessage {
            message: vec![number; 3].into(),
            metadata: random.bool().then(|| "metadata".into()),
        }),
    };
    let email = Resource { resource_type: "email".to_owned(), id: Uuid::from_u128(random.u8(..4).into()).into() };
    let resource = match random.u8(..4) {
        _ if matches!(response, StoredResponse::Error(_)) => None,
        0 => None,
        1 => Some(email),
        _ => Some(one_of(random, resources).0.clone()),
    };
    Completion { response, resource, retention: *one_of(random, &[Duration::ZERO, HOUR, HOUR, 2 * HOUR]) }
}

fn short(claim: &Claim) -> String {
    let Claim { reservation: Reservation { key, token, .. }, lease, retention, on_lease_ended, .. } = claim;
    let foreign = claim.on_foreign_reservation;
    format!("{:?} {token:.4} {lease:?} {retention:?} {on_lease_ended:?} {foreign:?}", key.as_uuid().as_u64_pair().1)
}

/// Describes an outcome, with times rounded to half hours.
fn describe(outcome: &ClaimOutcome) -> String {
    let halves = |time: Duration| (time.as_secs() + 900) / 1800;
    match outcome {
        ClaimOutcome::InFlight { lease_left } => format!("InFlight {}", halves(*lease_left)),
        ClaimOutcome::Replay(replay) => {
            let halves = halves(replay.expires_in);
            format!("Replay {:?} {:?} {:?} {halves}", replay.response, replay.resource, replay.status)
        }
        other => format!("{other:?}"),
    }
}
