//! Leases: takeover and extension.

use super::{
    Harness,
    support::{
        HOUR, NONE, abandoned, acquire, again, assert_in_flight, assert_unknown, claim, claimed, complete, completion,
        extended, released, take_over,
    },
};
use crate::{
    policy::LeasePolicy,
    store::{AbandonOutcome, Claim, ClaimOutcome, ExtendOutcome, ReleaseOutcome},
};

/// A reservation whose lease ended without an outcome is taken over, and the new owner told.
pub async fn takes_over_a_key_whose_lease_ended(harness: &impl Harness) {
    for policy in [LeasePolicy::Rerun, LeasePolicy::Reconcile] {
        let (store, _fixture) = harness.store().await;
        let first = Claim { lease: NONE, on_lease_ended: policy, ..claim() };
        acquire(&store, &first).await;
        let owner = Claim { lease: HOUR, ..again(&first) };
        take_over(&store, &owner).await;
        assert_in_flight(&store, &again(&first)).await;
        complete(&store, &owner, &completion(b"owner")).await;
    }
}

/// A takeover whose answer was lost is asked again, and answered the same: the new owner may not forget that there was
/// another.
pub async fn takes_over_a_key_again_with_the_token_that_holds_it(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = Claim { lease: NONE, ..claim() };
    acquire(&store, &first).await;
    let owner = Claim { lease: HOUR, ..again(&first) };
    take_over(&store, &owner).await;
    take_over(&store, &owner).await;
}

/// Where the policy is to refuse, it is not.
pub async fn does_not_take_over_a_key_whose_lease_ended_with_refuse(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = Claim { lease: NONE, on_lease_ended: LeasePolicy::Refuse, ..claim() };
    acquire(&store, &first).await;
    for _ in 0..2 {
        assert_unknown(&store, &again(&first)).await;
    }
    complete(&store, &first, &completion(b"late, and nobody took it over")).await;
}

/// A lease that is extended runs anew.
pub async fn extends_a_lease_held_by_the_caller(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = Claim { lease: HOUR / 2, retention: HOUR / 4, ..claim() };
    acquire(&store, &first).await;
    assert_eq!(extended(&store, &first, HOUR).await, ExtendOutcome::Extended);
    match claimed(&store, &again(&first)).await {
        ClaimOutcome::InFlight { lease_left } => assert!(lease_left <= HOUR && lease_left > HOUR / 2, "{lease_left:?}"),
        other => panic!("not in flight but {other:?}"),
    }
    complete(&store, &first, &completion(b"done")).await;
}

/// A late heartbeat finds the reservation where it was, as long as nobody else has.
pub async fn extends_a_lease_that_has_ended_and_was_not_taken_over(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = Claim { lease: NONE, ..claim() };
    acquire(&store, &first).await;
    assert_eq!(extended(&store, &first, HOUR).await, ExtendOutcome::Extended);
    assert_in_flight(&store, &again(&first)).await;
}

/// A worker whose lease was taken over cannot extend the new owner's.
pub async fn does_not_extend_after_the_lease_was_taken_over(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let late = Claim { lease: NONE, ..claim() };
    acquire(&store, &late).await;
    take_over(&store, &again(&late)).await;
    assert_eq!(extended(&store, &late, HOUR).await, ExtendOutcome::NotHeld);
    take_over(&store, &Claim { lease: HOUR, ..again(&late) }).await;
}

/// What is completed, released or abandoned has no lease.
pub async fn does_not_extend_what_has_ended(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let done = claim();
    acquire(&store, &done).await;
    complete(&store, &done, &completion(b"done")).await;
    assert_eq!(extended(&store, &done, HOUR).await, ExtendOutcome::NotHeld);

    let free = claim();
    acquire(&store, &free).await;
    assert_eq!(released(&store, &free).await, ReleaseOutcome::Released);
    assert_eq!(extended(&store, &free, HOUR).await, ExtendOutcome::NotHeld);

    let unknown = claim();
    acquire(&store, &unknown).await;
    assert_eq!(abandoned(&store, &unknown).await, AbandonOutcome::Abandoned);
    assert_eq!(extended(&store, &unknown, HOUR).await, ExtendOutcome::NotHeld);
    assert_unknown(&store, &again(&unknown)).await;
}
