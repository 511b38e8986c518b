//! Deletion of expired records.

use super::{
    Harness,
    support::{NONE, acquire, again, assert_in_flight, assert_unknown, claim, complete, completion, replay},
};
use crate::{
    policy::LeasePolicy,
    store::{Claim, Completion, Store as _},
};

/// A sweep deletes expired records of all users, at most one batch.
pub async fn sweeps_what_expired_in_batches(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    for _ in 0..5 {
        let expired = claim();
        acquire(&store, &expired).await;
        complete(&store, &expired, &Completion { retention: NONE, ..completion(b"gone") }).await;
    }
    let mut swept = Vec::new();
    for _ in 0..4 {
        swept.push(store.sweep(2).await.expect("the store answers a sweep"));
    }
    let expected = if store.forgets_expired() { [0; 4] } else { [2, 2, 1, 0] };
    assert_eq!(swept, expected);
}

/// A sweep deletes neither reservations, with or without a running lease, nor completed records that have not expired.
pub async fn does_not_sweep_what_has_not_expired(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let done = claim();
    acquire(&store, &done).await;
    complete(&store, &done, &completion(b"done")).await;
    let running = claim();
    acquire(&store, &running).await;
    let abandoned = Claim { lease: NONE, on_lease_ended: LeasePolicy::Refuse, ..claim() };
    acquire(&store, &abandoned).await;

    assert_eq!(store.sweep(100).await.expect("the store answers a sweep"), 0);

    replay(&store, &again(&done)).await;
    assert_in_flight(&store, &again(&running)).await;
    assert_unknown(&store, &again(&abandoned)).await;
}
