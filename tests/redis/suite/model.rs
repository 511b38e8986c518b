//! Each script is a transition of the model: the store in memory, from which expired records are swept before each step, as a time to live
//! does it. The same steps have the same outcomes on both.

use std::{fmt::Write as _, time::Duration};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use tokio::{runtime::Runtime, task::JoinSet};
use tonic_idempotency::{
    KeyId, OwnerId,
    policy::LeasePolicy,
    status::Resource,
    store::{
        AbandonedQuery, CallSession, Claim, ClaimOutcome, Completion, KeyRecord, LookUp, MemoryStore, RequestHashes,
        Reservation, Store, StoredMessage, StoredResponse,
    },
};
use uuid::Uuid;

use crate::{
    record::{HOUR, claim},
    servers::{on, server, shared},
};

/// Something that one of a few calls does with one key.
#[derive(Clone, Copy, Debug)]
enum Step {
    Abandon { call: u8 },
    Claim { call: u8, lease: bool, lives: bool, policy: LeasePolicy, request: Request },
    Complete { call: u8, lives: bool, outcome: Outcome },
    Extend { call: u8, lease: bool },
    LookUp,
    Release { call: u8 },
    Search { max_attempts: u32 },
}

/// A request, as its hashes and its procedure.
#[derive(Clone, Copy, Debug)]
struct Request {
    canonical: u8,
    arrival: Option<u8>,
    procedure: bool,
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Error,
    Message { metadata: bool, resource: bool },
    NotStored,
}

const FIRST: Request = Request { canonical: 1, arrival: None, procedure: true };

const POLICIES: [LeasePolicy; 3] = [LeasePolicy::Reconcile, LeasePolicy::Refuse, LeasePolicy::Rerun];

/// A key, and the tokens of the calls that use it.
#[derive(Clone, Debug)]
struct Key {
    owner: OwnerId,
    key: KeyId,
    tokens: [Uuid; 3],
}

impl Key {
    fn new() -> Self {
        let tokens = [(); 3].map(|()| Uuid::new_v4());
        Self { owner: OwnerId::new(Uuid::new_v4()), key: KeyId::new(Uuid::new_v4()), tokens }
    }

    fn reservation(&self, call: u8) -> Reservation {
        Reservation { owner: self.owner, key: self.key, token: self.tokens[usize::from(call)] }
    }
}

fn time(runs: bool) -> Duration {
    if runs { HOUR } else { Duration::ZERO }
}

/// Takes a step, and describes the part of its outcome that must be the same on every store.
async fn take(store: &impl Store, key: &Key, step: Step) -> String {
    match step {
        Step::Abandon { call } => format!("{:?}", store.abandon(&key.reservation(call)).await),
        Step::Claim { call, lease, lives, policy, request } => {
            let Request { canonical, arrival, procedure } = request;
            let claim = Claim {
                reservation: key.reservation(call),
                procedure: if procedure { "/a.A/Create".to_owned() } else { "/b.B/Create".to_owned() },
                request: RequestHashes::new([canonical; 32].into(), arrival.map(|byte| [byte; 32].into())),
                lease: time(lease),
                retention: time(lives),
                on_lease_ended: policy,
                ..claim()
            };
            match store.claim(&claim).await.expect("the store answers") {
                ClaimOutcome::InFlight { lease_left } => format!("in flight: {}", lease_left > HOUR / 2),
                ClaimOutcome::Replay(replay) => {
                    format!("{:?} {:?} {}", replay.response, replay.resource, replay.expires_in > HOUR / 2)
                }
                outcome => format!("{outcome:?}"),
            }
        }
        Step::Complete { call, lives, outcome } => {
            let completion = Completion { retention: time(lives), ..completion(outcome) };
            format!("{:?}", store.complete(&key.reservation(call), &completion).await)
        }
        Step::Extend { call, lease } => format!("{:?}", store.extend(&key.reservation(call), time(lease)).await),
        Step::LookUp => {
            let (owner, key) = (key.owner, key.key);
            let question = LookUp { owner, key, session: CallSession::default(), with_status: false };
            let found = store.look_up(&question).await.expect("the store answers");
            let KeyRecord { state, procedure, created, completed, expires, resource, .. } = found;
            let lives = expires.zip(created).map(|(expires, created)| expires > created + HOUR / 2);
            format!("{state:?} {procedure:?} {} {resource:?} {lives:?}", completed.is_some())
        }
        Step::Release { call } => format!("{:?}", store.release(&key.reservation(call)).await),
        Step::Search { max_attempts } => {
            let procedures = vec!["/a.A/Create".to_owned()];
            let search = AbandonedQuery { procedures, lookback: Some(HOUR), max_attempts, batch: 10 };
            let found = store.abandoned(&search).await.expect("the store answers");
            format!("{:?}", found.into_iter().filter(|found| found.key == key.key).collect::<Vec<_>>())
        }
    }
}

fn completion(outcome: Outcome) -> Completion {
    let (response, with_resource) = match outcome {
        Outcome::Error => (StoredResponse::Error("no".into()), false),
        Outcome::Message { metadata, resource } => {
            let metadata = metadata.then(|| "m".into());
            (StoredResponse::Message(StoredMessage { message: "done".into(), metadata }), resource)
        }
        Outcome::NotStored => (StoredResponse::NotStored, true),
    };
    let resource = with_resource.then(|| Resource { resource_type: "order".to_owned(), id: 17.into() });
    Completion { response, resource, retention: HOUR }
}

/// Takes steps on both stores, and returns the first difference, with the way to it.
async fn difference(model: &MemoryStore, store: &impl Store, steps: &[Step]) -> Option<String> {
    let (key, mut way) = (Key::new(), String::new());
    for step in steps {
        model.sweep(u32::MAX).await.expect("memory sweeps");
        let (expected, found) = (take(model, &key, *step).await, take(store, &key, *step).await);
        let _ = writeln!(way, "{step:?}: {found}");
        if expected != found {
            return Some(format!("{way}the model says: {expected}"));
        }
    }
    None
}

/// Every sequence of three steps of two calls.
#[test]
fn has_the_outcomes_of_the_model_in_every_short_sequence() {
    let Some(store) = shared() else { return };
    let mut steps = Vec::new();
    for call in [0, 1] {
        for (lease, policy) in
            [(true, LeasePolicy::Rerun), (false, LeasePolicy::Rerun), (false, LeasePolicy::Reconcile)]
        {
            steps.push(Step::Claim { call, lease, lives: true, policy, request: FIRST });
        }
        steps.push(Step::Claim { call, lease: false, lives: false, policy: LeasePolicy::Refuse, request: FIRST });
        steps.push(Step::Extend { call, lease: true });
        steps.push(Step::Complete { call, lives: true, outcome: Outcome::Message { metadata: true, resource: true } });
        steps.push(Step::Complete { call, lives: false, outcome: Outcome::Error });
        steps.extend([Step::Release { call }, Step::Abandon { call }]);
    }
    steps.push(Step::LookUp);
    Runtime::new().expect("a runtime").block_on(async {
        let mut running = JoinSet::new();
        for first in steps.clone() {
            let (store, steps) = (store.clone(), steps.clone());
            running.spawn(async move {
                let model = MemoryStore::new();
                for second in &steps {
                    for third in &steps {
                        let difference = difference(&model, &store, &[first, *second, *third]).await;
                        assert_eq!(difference, None);
                    }
                }
            });
        }
        while let Some(done) = running.join_next().await {
            done.expect("no difference");
        }
    });
}

/// Long sequences of three calls, with every kind of step, request and outcome.
#[test]
fn has_the_outcomes_of_the_model_in_long_sequences() {
    let Some(server) = server() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let config = Config { cases: 150, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&prop::collection::vec(step(), 1..25), |steps| {
        // A store of its own, because a search reads all records.
        let difference = runtime.block_on(difference(&MemoryStore::new(), &on(server), &steps));
        prop_assert!(difference.is_none(), "{}", difference.unwrap_or_default());
        Ok(())
    });
    outcome.expect("no difference");
}

fn step() -> impl Strategy<Value = Step> {
    let call = || 0_u8..3;
    let request = (1_u8..4, prop::option::of(1_u8..4), prop::bool::weighted(0.9))
        .prop_map(|(canonical, arrival, procedure)| Request { canonical, arrival, procedure });
    let request = prop_oneof![3 => Just(FIRST), 1 => request];
    let outcome = prop_oneof![
        any::<(bool, bool)>().prop_map(|(metadata, resource)| Outcome::Message { metadata, resource }),
        Just(Outcome::Error),
        Just(Outcome::NotStored),
    ];
    let claim = (call(), any::<bool>(), prop::bool::weighted(0.8), prop::sample::select(&POLICIES), request)
        .prop_map(|(call, lease, lives, policy, request)| Step::Claim { call, lease, lives, policy, request });
    prop_oneof![
        6 => claim,
        2 => (call(), prop::bool::weighted(0.8), outcome)
            .prop_map(|(call, lives, outcome)| Step::Complete { call, lives, outcome }),
        2 => (call(), any::<bool>()).prop_map(|(call, lease)| Step::Extend { call, lease }),
        1 => call().prop_map(|call| Step::Release { call }),
        1 => call().prop_map(|call| Step::Abandon { call }),
        1 => Just(Step::LookUp),
        1 => (1_u32..5).prop_map(|max_attempts| Step::Search { max_attempts }),
    ]
}
