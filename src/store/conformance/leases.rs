//! Takeover after the end of a lease, and extension of leases.

use protobuf_canonical::RequestHashes;

use super::{
    Harness,
    support::{
        HOUR, NONE, abandoned, acquire, again, assert_in_flight, assert_unknown, claim, claimed, complete, completion,
        extended, released, take_over,
    },
};
use crate::{
    policy::LeasePolicy,
    rejection::Mismatch,
    store::{AbandonOutcome, Claim, ClaimOutcome, ExtendOutcome, ReleaseOutcome},
};

/// A claim takes over a reservation whose lease ended without an outcome, and the new owner can complete it.
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

/// A takeover that is repeated because its answer was lost has the same outcome: the new owner must not miss that
/// another call held the key.
pub async fn takes_over_a_key_again_with_the_token_that_holds_it(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = Claim { lease: NONE, ..claim() };
    acquire(&store, &first).await;
    let owner = Claim { lease: HOUR, ..again(&first) };
    take_over(&store, &owner).await;
    take_over(&store, &owner).await;
}

/// A claim that is repeated after its call has released or abandoned the key is a late one: it gets nothing under any policy, and leaves the key
/// to the claims of others.
pub async fn does_not_acquire_a_key_that_its_token_gave_back(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    for (taken_over, is_abandoned) in [(false, true), (true, false), (true, true)] {
        for policy in [LeasePolicy::Reconcile, LeasePolicy::Refuse, LeasePolicy::Rerun] {
            let first = Claim { lease: NONE, ..claim() };
            acquire(&store, &first).await;
            let gone = if taken_over { Claim { lease: HOUR, ..again(&first) } } else { first };
            if taken_over {
                take_over(&store, &gone).await;
            }
            match is_abandoned {
                true => assert_eq!(abandoned(&store, &gone).await, AbandonOutcome::Abandoned),
                false => assert_eq!(released(&store, &gone).await, ReleaseOutcome::Released),
            }
            let late = Claim { on_lease_ended: policy, lease: HOUR, ..gone };
            assert_unknown(&store, &late).await;
            assert_eq!(extended(&store, &late, HOUR).await, ExtendOutcome::NotHeld);
            let other = again(&late);
            if policy == LeasePolicy::Reconcile || policy == LeasePolicy::Rerun && !is_abandoned {
                take_over(&store, &other).await;
                assert_in_flight(&store, &late).await;
            } else {
                assert_unknown(&store, &other).await;
            }
        }
    }
}

/// A claim takes over by either of the hashes of the request. The record keeps those of the first call.
pub async fn takes_over_a_request_by_either_of_its_hashes(harness: &impl Harness) {
    let hashes = |canonical, as_arrived| RequestHashes::new([canonical; 32].into(), Some([as_arrived; 32].into()));
    let (store, _fixture) = harness.store().await;
    let first = Claim { lease: NONE, request: hashes(7, 1), ..claim() };
    acquire(&store, &first).await;
    let outcome = claimed(&store, &Claim { request: hashes(8, 2), ..again(&first) }).await;
    assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Request)), "{outcome:?}");

    let second = Claim { lease: NONE, request: hashes(8, 1), ..again(&first) };
    take_over(&store, &second).await;
    let owner = Claim { request: hashes(7, 2), lease: HOUR, ..again(&first) };
    take_over(&store, &owner).await;
    assert_in_flight(&store, &again(&first)).await;
    complete(&store, &owner, &completion(b"owner")).await;
}

/// With [`LeasePolicy::Refuse`], a claim does not take over, and the first call can still complete.
pub async fn does_not_take_over_a_key_whose_lease_ended_with_refuse(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = Claim { lease: NONE, on_lease_ended: LeasePolicy::Refuse, ..claim() };
    acquire(&store, &first).await;
    for _ in 0..2 {
        assert_unknown(&store, &again(&first)).await;
    }
    complete(&store, &first, &completion(b"late, and nobody took it over")).await;
}

/// An extension renews the lease, and the lifetime of the record if it would end before the lease.
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

/// A late heartbeat still renews a lease that was not taken over.
pub async fn extends_a_lease_that_has_ended_and_was_not_taken_over(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = Claim { lease: NONE, ..claim() };
    acquire(&store, &first).await;
    assert_eq!(extended(&store, &first, HOUR).await, ExtendOutcome::Extended);
    assert_in_flight(&store, &again(&first)).await;
}

/// A late call cannot extend the lease of the new owner.
pub async fn does_not_extend_after_the_lease_was_taken_over(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let late = Claim { lease: NONE, ..claim() };
    acquire(&store, &late).await;
    take_over(&store, &again(&late)).await;
    assert_eq!(extended(&store, &late, HOUR).await, ExtendOutcome::NotHeld);
    take_over(&store, &Claim { lease: HOUR, ..again(&late) }).await;
}

/// A completed, released or abandoned reservation has no lease to extend.
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
