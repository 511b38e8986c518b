//! Look-ups: what became of a call, without a call.

use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::{
    Harness,
    support::{
        HOUR, NONE, abandoned, acquire, again, claim, complete, completion, failure, released, replay, take_over,
    },
};
use crate::{
    caller::OwnerId,
    key::KeyId,
    policy::LeasePolicy,
    status::OutboxStatus,
    store::{
        BeginOutcome, CallSession, Claim, Completion, KeyRecord, KeyState, LookUp, Reservation, Store, StoredResponse,
        TransactionOptions,
    },
};

/// The maximum difference between the store's clock and the test's.
const SKEW: Duration = Duration::from_secs(600);

pub(super) async fn look_up(store: &impl Store, claim: &Claim) -> KeyRecord {
    let Reservation { owner, key, .. } = claim.reservation;
    let question = LookUp { owner, key, session: CallSession::default(), with_status: true };
    store.look_up(&question).await.expect("the store answers a look-up")
}

async fn assert_state(store: &impl Store, claim: &Claim, state: KeyState) {
    let found = look_up(store, claim).await;
    assert_eq!(found.state, state, "{found:?}");
}

fn assert_now(time: Option<SystemTime>) {
    let (time, now) = (time.expect("a time"), SystemTime::now());
    assert!(time > now - SKEW && time < now + SKEW, "{time:?}");
}

/// Nothing is known of a key that no call has had, or that was released.
pub async fn finds_nothing_of_a_key_that_is_absent(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    let found = look_up(&store, &first).await;
    assert_eq!((found.state, found.procedure, found.resource), (KeyState::Absent, None, None));
    assert_eq!((found.created, found.completed, found.expires), (None, None, None));
    acquire(&store, &first).await;
    released(&store, &first).await;
    assert_state(&store, &first, KeyState::Absent).await;
}

/// A call that holds its key is running, with its procedure and its times; also one that has taken it over.
pub async fn finds_a_call_that_holds_its_key(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    let found = look_up(&store, &first).await;
    assert_eq!((found.state, found.procedure.as_deref()), (KeyState::Running, Some(first.procedure.as_str())));
    assert_now(found.created);
    assert_eq!((found.completed, found.resource), (None, None));
    let lives = found.expires.expect("a time").duration_since(found.created.expect("a time")).expect("later");
    assert!(lives > HOUR - SKEW && lives < HOUR + SKEW, "{lives:?}");

    let left = Claim { lease: NONE, ..claim() };
    acquire(&store, &left).await;
    assert_state(&store, &left, KeyState::Unknown).await;
    take_over(&store, &Claim { lease: HOUR, ..again(&left) }).await;
    assert_state(&store, &left, KeyState::Running).await;
}

/// A call that has ended is found with its outcome, the time, and the resource with the status of the work behind it.
pub async fn finds_the_outcome_of_a_call(harness: &impl Harness) {
    for status in [None, Some(OutboxStatus::Pending), Some(OutboxStatus::Completed)] {
        let (store, fixture) = harness.store().await;
        let resource = harness.resource(&store, &fixture, status).await;
        let first = Claim { resource_type: Some(resource.resource_type.clone()), ..claim() };
        acquire(&store, &first).await;
        complete(&store, &first, &Completion { resource: Some(resource.clone()), ..completion(b"first") }).await;
        let found = look_up(&store, &first).await;
        assert_eq!((found.state, found.procedure.as_deref()), (KeyState::Completed, Some(first.procedure.as_str())));
        assert_eq!(found.resource.as_ref(), Some(&resource));
        assert_eq!(found.status.as_ref().ok(), Some(&status.filter(|_| store.has_statuses())), "{found:?}");
        assert_now(found.created);
        assert_now(found.completed);
        assert!(found.completed >= found.created && found.expires > found.completed, "{found:?}");
    }
    let (store, _fixture) = harness.store().await;
    let failed = claim();
    acquire(&store, &failed).await;
    complete(&store, &failed, &failure(b"no")).await;
    assert_state(&store, &failed, KeyState::Failed).await;
    for response in [StoredResponse::NotStored, StoredResponse::Sealed(b"\x00sealed".as_slice().into())] {
        let unread = claim();
        acquire(&store, &unread).await;
        complete(&store, &unread, &Completion { response, ..completion(b"") }).await;
        assert_state(&store, &unread, KeyState::Completed).await;
    }
}

/// A call that left no outcome is unknown, and an expired record is not a record.
pub async fn finds_a_call_without_an_outcome_and_one_that_expired(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let [ended, given_up, reserved, recorded] =
        [Claim { lease: NONE, ..claim() }, claim(), Claim { lease: NONE, retention: NONE, ..claim() }, claim()];
    acquire(&store, &ended).await;
    assert_state(&store, &ended, KeyState::Unknown).await;
    acquire(&store, &given_up).await;
    abandoned(&store, &given_up).await;
    assert_state(&store, &given_up, KeyState::Unknown).await;
    let expired = if store.forgets_expired() { KeyState::Absent } else { KeyState::Expired };
    acquire(&store, &reserved).await;
    assert_state(&store, &reserved, expired).await;
    acquire(&store, &recorded).await;
    complete(&store, &recorded, &Completion { retention: NONE, ..completion(b"first") }).await;
    assert_state(&store, &recorded, expired).await;
    store.sweep(10).await.expect("the store sweeps");
    assert_state(&store, &recorded, KeyState::Absent).await;
}

/// A look-up changes nothing: a key is claimed, taken over and replayed after it as before.
pub async fn looks_up_without_a_change(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = Claim { lease: NONE, on_lease_ended: LeasePolicy::Rerun, ..claim() };
    assert_state(&store, &first, KeyState::Absent).await;
    acquire(&store, &first).await;
    assert_state(&store, &first, KeyState::Unknown).await;
    let second = Claim { lease: HOUR, ..again(&first) };
    take_over(&store, &second).await;
    assert_state(&store, &first, KeyState::Running).await;
    complete(&store, &second, &completion(b"second")).await;
    assert_state(&store, &first, KeyState::Completed).await;
    assert_eq!(replay(&store, &again(&first)).await.response, StoredResponse::message("second"));
}

/// A look-up finds the calls of its owner only.
pub async fn does_not_find_the_call_of_another_owner(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"first")).await;
    let other = Reservation { owner: OwnerId::new(Uuid::new_v4()), ..first.reservation };
    assert_state(&store, &Claim { reservation: other, ..first.clone() }, KeyState::Absent).await;
    let other = Reservation { key: KeyId::new(Uuid::new_v4()), ..first.reservation };
    assert_state(&store, &Claim { reservation: other, ..first.clone() }, KeyState::Absent).await;
    assert_state(&store, &first, KeyState::Completed).await;
}

/// A call that holds its key in a transaction is running until that ends, and then found by its record.
pub async fn finds_a_call_in_a_transaction(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let first = claim();
    let BeginOutcome::Open { transaction, .. } =
        store.begin(&first, TransactionOptions::default()).await.expect("the store begins a transaction")
    else {
        panic!("no transaction");
    };
    let found = look_up(&store, &first).await;
    assert_eq!((found.state, found.completed), (KeyState::Running, None));
    let other = Reservation { owner: OwnerId::new(Uuid::new_v4()), ..first.reservation };
    assert_state(&store, &Claim { reservation: other, ..first.clone() }, KeyState::Absent).await;
    transaction.commit(Some(completion(b"first"))).await.expect("a commit");
    let found = look_up(&store, &first).await;
    assert_eq!((found.state, found.procedure.as_deref()), (KeyState::Completed, Some(first.procedure.as_str())));
    assert_now(found.created);
    assert_now(found.completed);

    // A call that takes over what another left.
    let left = Claim { lease: NONE, ..claim() };
    acquire(&store, &left).await;
    let BeginOutcome::Open { transaction, .. } =
        store.begin(&again(&left), TransactionOptions::default()).await.expect("the store begins a transaction")
    else {
        panic!("no transaction");
    };
    let found = look_up(&store, &left).await;
    assert_eq!((found.state, found.procedure.as_deref()), (KeyState::Running, Some(left.procedure.as_str())));
    transaction.roll_back().await;
    assert_state(&store, &left, KeyState::Unknown).await;
}
