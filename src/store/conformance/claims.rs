//! Claims of keys that are absent, expired, in use, or used by another call or owner.

use std::{sync::Arc, time::SystemTime};

use protobuf_canonical::{RequestHash, RequestHashes};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{
    Harness,
    look_ups::look_up,
    support::{
        HOUR, NONE, acquire, again, assert_in_flight, claim, claimed, complete, completed, completion, released, replay,
    },
};
use crate::{
    caller::OwnerId,
    policy::LeasePolicy,
    rejection::Mismatch,
    store::{Claim, ClaimOutcome, CompleteOutcome, Completion, ReleaseOutcome, Reservation, StoredResponse},
};

/// The first claim acquires the key.
pub async fn acquires_a_key_that_is_absent(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    acquire(&store, &claim()).await;
}

/// A claim that is repeated because its answer was lost has the same outcome.
pub async fn acquires_a_key_again_with_the_token_that_holds_it(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let claim = claim();
    acquire(&store, &claim).await;
    acquire(&store, &claim).await;
    assert_in_flight(&store, &again(&claim)).await;
}

/// The time for which its answer was lost is not missing from its lease, and its record does not expire before.
pub async fn renews_the_lease_of_a_claim_that_is_repeated(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    for on_lease_ended in [LeasePolicy::Reconcile, LeasePolicy::Refuse, LeasePolicy::Rerun] {
        let repeated = Claim { lease: NONE, on_lease_ended, ..claim() };
        acquire(&store, &repeated).await;
        acquire(&store, &Claim { lease: 2 * HOUR, ..repeated.clone() }).await;
        assert_in_flight(&store, &again(&repeated)).await;
        assert!(look_up(&store, &repeated).await.expires > Some(SystemTime::now() + HOUR + HOUR / 2));
    }
}

/// Exactly one of many concurrent claims acquires the key. The others find it in flight.
pub async fn acquires_a_key_for_one_of_many_at_once(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let claim = Arc::new(claim());
    let mut claims = JoinSet::new();
    for _ in 0..32 {
        let (store, claim) = (store.clone(), again(&claim));
        claims.spawn(async move { claimed(&store, &claim).await });
    }
    let outcomes = claims.join_all().await;
    let acquired = outcomes.iter().filter(|outcome| matches!(outcome, ClaimOutcome::Acquired)).count();
    let in_flight = outcomes.iter().filter(|outcome| matches!(outcome, ClaimOutcome::InFlight { .. })).count();
    assert_eq!((acquired, in_flight), (1, 31), "{outcomes:?}");
}

/// An expired record counts as absent before it is swept, whatever call it belonged to.
pub async fn acquires_a_key_whose_record_expired(harness: &impl Harness) {
    let (store, fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    let resource = harness.resource(&store, &fixture, None).await;
    complete(&store, &first, &Completion { resource: Some(resource), retention: NONE, ..completion(b"first") }).await;

    let other = Claim { request: RequestHash::from([8; 32]).into(), ..again(&first) };
    acquire(&store, &other).await;
    complete(&store, &other, &completion(b"second")).await;
    let replay = replay(&store, &again(&other)).await;
    assert_eq!(replay.response, StoredResponse::message("second"));
    assert_eq!(replay.resource, None, "what the expired record had created is not this one's");
}

/// A claim of a key in flight returns the time that is left of the lease.
pub async fn does_not_acquire_a_key_in_flight(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    match claimed(&store, &again(&first)).await {
        ClaimOutcome::InFlight { lease_left } => assert!(lease_left <= HOUR && lease_left > HOUR / 2, "{lease_left:?}"),
        other => panic!("not in flight but {other:?}"),
    }
}

/// A claim with another procedure is a mismatch.
pub async fn does_not_acquire_a_key_of_another_procedure(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"first")).await;
    let procedure = "/organization.v1.ClusterService/CreateCluster".to_owned();
    let outcome = claimed(&store, &Claim { procedure, ..again(&first) }).await;
    assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Procedure)), "{outcome:?}");
}

/// A claim with another request is a mismatch.
pub async fn does_not_acquire_a_key_of_another_request(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"first")).await;
    let request = RequestHash::from([8; 32]).into();
    let outcome = claimed(&store, &Claim { request, ..again(&first) }).await;
    assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Request)), "{outcome:?}");
}

/// A call is the same request as the first one if any hash of the one equals any of the other, while the first call runs, and
/// after it.
pub async fn knows_a_request_by_either_of_its_hashes(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    for first in [hashes(7, None), hashes(7, Some(1))] {
        let first = Claim { request: first, ..claim() };
        acquire(&store, &first).await;
        for same in same_as(&first.request) {
            assert_in_flight(&store, &Claim { request: same, ..again(&first) }).await;
        }
        complete(&store, &first, &completion(b"first")).await;
        for same in same_as(&first.request) {
            let replay = replay(&store, &Claim { request: same, ..again(&first) }).await;
            assert_eq!(replay.response, StoredResponse::message("first"));
        }
    }
}

/// A claim whose hashes all differ from those of the first call is a mismatch.
pub async fn does_not_know_a_request_by_none_of_its_hashes(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    for first in [hashes(7, None), hashes(7, Some(1))] {
        let first = Claim { request: first, ..claim() };
        acquire(&store, &first).await;
        complete(&store, &first, &completion(b"first")).await;
        for request in [hashes(8, None), hashes(8, Some(2))] {
            let outcome = claimed(&store, &Claim { request, ..again(&first) }).await;
            assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Request)), "{first:?}: {outcome:?}");
        }
    }
}

fn hashes(canonical: u8, as_arrived: Option<u8>) -> RequestHashes {
    RequestHashes::new([canonical; 32].into(), as_arrived.map(|byte| [byte; 32].into()))
}

/// Returns all forms of hashes of the same request.
fn same_as(first: &RequestHashes) -> Vec<RequestHashes> {
    let known = [Some(first.canonical()), first.as_arrived()].into_iter().flatten().copied();
    known
        .flat_map(|known| {
            [
                known.into(),
                RequestHashes::new(known, Some([9; 32].into())),
                RequestHashes::new([9; 32].into(), Some(known)),
            ]
        })
        .collect()
}

/// A claim with another request is a mismatch while the first call is running, and after its lease has ended.
pub async fn tells_a_mismatch_before_anything_else(harness: &impl Harness) {
    for lease in [HOUR, NONE] {
        let (store, _fixture) = harness.store().await;
        let first = Claim { lease, ..claim() };
        acquire(&store, &first).await;
        let request = RequestHash::from([8; 32]).into();
        let outcome = claimed(&store, &Claim { request, ..again(&first) }).await;
        assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Request)), "{outcome:?}");
        complete(&store, &first, &completion(b"untouched")).await;
    }
}

/// Two owners can use the same key. Neither sees or changes the record of the other.
pub async fn keeps_the_keys_of_two_owners_apart(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let alice = claim();
    let bob = Claim {
        reservation: Reservation { owner: OwnerId::new(Uuid::new_v4()), ..alice.reservation },
        ..alice.clone()
    };
    acquire(&store, &alice).await;
    complete(&store, &alice, &completion(b"alice")).await;
    acquire(&store, &bob).await;
    assert_eq!(released(&store, &bob).await, ReleaseOutcome::Released);
    assert_eq!(completed(&store, &bob, &completion(b"bob")).await, CompleteOutcome::Fenced);
    assert_eq!(replay(&store, &again(&alice)).await.response, StoredResponse::message("alice"));
}
