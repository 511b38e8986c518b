//! Transactions of handlers: what they hold, what they record, and what they leave behind. A store
//! [without transactions](crate::store::Store::has_transactions) passes.

use std::time::Duration;

use protobuf_canonical::RequestHash;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{
    Harness,
    support::{HOUR, NONE, acquire, again, assert_unknown, claim, complete, completion, extended, failure, replay},
};
use crate::{
    caller::OwnerId,
    policy::LeasePolicy,
    rejection::Mismatch,
    store::{
        BeginOutcome, CallSession, Claim, ClaimOutcome, CommitOutcome, Completion, ExtendOutcome, Reservation, Store,
        StoreTransaction, StoredResponse, TransactionOptions,
    },
};

/// The time within which a dropped transaction has to free its key.
const PATIENCE: Duration = Duration::from_secs(30);

/// A transaction holds its key from its beginning: no other transaction of the key begins, whatever its request.
pub async fn begins_a_transaction_that_holds_its_key(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let first = claim();
    let transaction = open(&store, &first, false).await;
    let procedure = "/organization.v1.ClusterService/CreateCluster".to_owned();
    let request = RequestHash::from([8; 32]).into();
    for claim in [again(&first), Claim { procedure, ..again(&first) }, Claim { request, ..again(&first) }] {
        match refused(&store, &claim).await {
            ClaimOutcome::InFlight { lease_left } => assert!(lease_left > NONE, "{lease_left:?}"),
            other => panic!("not in flight but {other:?}"),
        }
    }

    let other_owner = Reservation { owner: OwnerId::new(Uuid::new_v4()), ..again(&first).reservation };
    let other = open(&store, &Claim { reservation: other_owner, ..first.clone() }, false).await;
    other.roll_back().await;
    transaction.roll_back().await;
}

/// A committed transaction leaves a complete record.
pub async fn records_a_transaction_that_is_committed(harness: &impl Harness) {
    let (store, fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let resource = harness.resource(&store, &fixture, None).await;
    let first = Claim { resource_type: Some(resource.resource_type.clone()), ..claim() };
    let transaction = open(&store, &first, false).await;
    let outcome = Completion { resource: Some(resource.clone()), ..completion(b"first") };
    assert_eq!(transaction.commit(Some(outcome)).await.expect("a commit"), CommitOutcome::Committed);

    let recorded = replay(&store, &again(&first)).await;
    assert_eq!((recorded.response, recorded.resource), (StoredResponse::message("first"), Some(resource.id)));
    assert!(recorded.expires_in > HOUR / 2 && recorded.expires_in <= HOUR, "{:?}", recorded.expires_in);
    match refused(&store, &again(&first)).await {
        ClaimOutcome::Replay(replay) => assert_eq!(replay.response, StoredResponse::message("first")),
        other => panic!("no replay but {other:?}"),
    }
    let request = RequestHash::from([8; 32]).into();
    let outcome = refused(&store, &Claim { request, ..again(&first) }).await;
    assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Request)), "{outcome:?}");
}

/// A final error is recorded like a response.
pub async fn records_a_transaction_that_ends_with_an_error(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let first = claim();
    let options = TransactionOptions { savepoint: true, ..TransactionOptions::default() };
    let transaction = match store.begin(&first, options).await.expect("the store begins a transaction") {
        BeginOutcome::Open { transaction, .. } => transaction,
        BeginOutcome::Refused(outcome) => panic!("no transaction but {outcome:?}"),
    };
    assert_eq!(transaction.commit(Some(failure(b"no"))).await.expect("a commit"), CommitOutcome::Committed);
    assert_eq!(replay(&store, &again(&first)).await.response, StoredResponse::Error("no".into()));
}

/// A transaction that is committed without an outcome frees its key, and leaves no record.
pub async fn does_not_record_a_transaction_without_an_outcome(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let first = claim();
    let transaction = open(&store, &first, false).await;
    assert_eq!(transaction.commit(None).await.expect("a commit"), CommitOutcome::Committed);
    acquire(&store, &again(&first)).await;
}

/// A transaction that is rolled back frees its key, and leaves no record.
pub async fn does_not_record_a_transaction_that_is_rolled_back(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let first = claim();
    open(&store, &first, false).await.roll_back().await;
    let second = open(&store, &again(&first), false).await;
    second.roll_back().await;
    acquire(&store, &again(&first)).await;
}

/// A transaction that is dropped frees its key, at once or soon, and leaves no record.
pub async fn does_not_record_a_transaction_that_is_dropped(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let first = claim();
    drop(open(&store, &first, false).await);
    let freed = async {
        loop {
            match begun(&store, &again(&first)).await {
                BeginOutcome::Open { transaction, taken_over: false } => {
                    transaction.roll_back().await;
                    return;
                }
                BeginOutcome::Refused(ClaimOutcome::InFlight { .. }) => sleep(Duration::from_millis(5)).await,
                other => panic!("neither free nor in flight but {other:?}"),
            }
        }
    };
    timeout(PATIENCE, freed).await.expect("the key of a dropped transaction becomes free");
}

/// A transaction of a call without a key is committed without a record.
pub async fn begins_a_transaction_without_a_key(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let options = TransactionOptions::default();
    for owner in [None, Some(claim().reservation.owner)] {
        let transaction = store.begin_without_key(owner, &CallSession::default(), options).await;
        let transaction = transaction.expect("the store begins a transaction");
        assert!(!transaction.is_in_conflict(None));
        assert_eq!(transaction.commit(None).await.expect("a commit"), CommitOutcome::Committed);
        let transaction = store.begin_without_key(owner, &CallSession::default(), options).await;
        transaction.expect("the store begins a transaction").roll_back().await;
    }
}

/// A transaction does not begin while the lease of a reservation runs. After the lease, it does not begin either if the policy forbids
/// running the call again to decide the outcome.
pub async fn does_not_begin_a_transaction_of_a_reserved_key(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let running = claim();
    acquire(&store, &running).await;
    let outcome = refused(&store, &again(&running)).await;
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");

    let ended = Claim { lease: NONE, on_lease_ended: LeasePolicy::Refuse, ..claim() };
    acquire(&store, &ended).await;
    let outcome = refused(&store, &again(&ended)).await;
    assert!(matches!(outcome, ClaimOutcome::OutcomeUnknown), "{outcome:?}");
}

/// A transaction takes over a reservation whose lease ended without an outcome. The transaction's record replaces the reservation. If
/// the transaction is rolled back, the reservation is as it was.
pub async fn takes_over_in_a_transaction_a_key_whose_lease_ended(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let first = Claim { lease: NONE, ..claim() };
    acquire(&store, &first).await;
    open(&store, &again(&first), true).await.roll_back().await;
    assert_unknown(&store, &Claim { on_lease_ended: LeasePolicy::Refuse, ..again(&first) }).await;

    let transaction = open(&store, &again(&first), true).await;
    assert_eq!(transaction.commit(Some(completion(b"second"))).await.expect("a commit"), CommitOutcome::Committed);
    assert_eq!(replay(&store, &again(&first)).await.response, StoredResponse::message("second"));
}

/// A transaction acquires a key whose record expired, and its own record replaces it.
pub async fn acquires_in_a_transaction_a_key_whose_record_expired(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &Completion { retention: NONE, ..completion(b"first") }).await;
    let other = Claim { request: RequestHash::from([8; 32]).into(), ..again(&first) };
    let transaction = open(&store, &other, false).await;
    assert_eq!(transaction.commit(Some(completion(b"second"))).await.expect("a commit"), CommitOutcome::Committed);
    assert_eq!(replay(&store, &again(&other)).await.response, StoredResponse::message("second"));
}

/// A transaction that took over a key is not committed if the earlier call has recorded its outcome meanwhile.
pub async fn does_not_commit_a_transaction_after_another_call_was_recorded(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let first = Claim { lease: NONE, ..claim() };
    acquire(&store, &first).await;
    let transaction = open(&store, &again(&first), true).await;
    complete(&store, &first, &completion(b"first")).await;
    assert_eq!(transaction.commit(Some(completion(b"second"))).await.expect("an answer"), CommitOutcome::Superseded);
    assert_eq!(replay(&store, &again(&first)).await.response, StoredResponse::message("first"));
}

/// A transaction that took over a key is not committed if the earlier call has renewed its lease meanwhile.
pub async fn does_not_commit_a_transaction_after_the_lease_was_renewed(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    if !store.has_transactions() {
        return;
    }
    let first = Claim { lease: NONE, ..claim() };
    acquire(&store, &first).await;
    let transaction = open(&store, &again(&first), true).await;
    assert_eq!(extended(&store, &first, HOUR).await, ExtendOutcome::Extended);
    assert_eq!(transaction.commit(Some(completion(b"second"))).await.expect("an answer"), CommitOutcome::Superseded);
    complete(&store, &first, &completion(b"first")).await;
}

/// Begins a transaction. Panics if the store refuses it.
async fn open(store: &impl Store, claim: &Claim, taken_over: bool) -> Box<dyn StoreTransaction> {
    match begun(store, claim).await {
        BeginOutcome::Open { transaction, taken_over: seen } => {
            assert_eq!(seen, taken_over, "taken over");
            transaction
        }
        BeginOutcome::Refused(outcome) => panic!("no transaction but {outcome:?}"),
    }
}

/// Tries to begin a transaction. Panics if the store does not refuse it.
async fn refused(store: &impl Store, claim: &Claim) -> ClaimOutcome {
    match begun(store, claim).await {
        BeginOutcome::Refused(outcome) => outcome,
        open @ BeginOutcome::Open { .. } => panic!("not refused but {open:?}"),
    }
}

async fn begun(store: &impl Store, claim: &Claim) -> BeginOutcome {
    store.begin(claim, TransactionOptions::default()).await.expect("the store begins a transaction, or says why not")
}
