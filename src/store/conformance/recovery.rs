//! Abandonment of reservations, and the search for those whose lease ended without an outcome.

use std::time::Duration;

use protobuf_canonical::RequestHashes;

use super::{
    Harness,
    support::{
        HOUR, NONE, abandoned, acquire, again, assert_in_flight, assert_unknown, claim, complete, completed,
        completion, failure, replay, take_over,
    },
};
use crate::{
    policy::LeasePolicy,
    store::{AbandonOutcome, AbandonedKey, AbandonedQuery, Claim, CompleteOutcome, Reservation, Store},
};

/// An abandoned call is reconciled or refused, never run again. Until it is taken over, the call itself can still
/// complete.
pub async fn abandons_a_reservation_held_by_the_caller(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    assert_eq!(abandoned(&store, &first).await, AbandonOutcome::Abandoned);
    for on_lease_ended in [LeasePolicy::Rerun, LeasePolicy::Refuse] {
        assert_unknown(&store, &Claim { on_lease_ended, ..again(&first) }).await;
    }
    let reconciler = Claim { on_lease_ended: LeasePolicy::Reconcile, ..again(&first) };
    take_over(&store, &reconciler).await;
    assert_in_flight(&store, &again(&first)).await;
    assert_eq!(completed(&store, &first, &completion(b"late")).await, CompleteOutcome::Fenced);
    complete(&store, &reconciler, &completion(b"found")).await;

    let second = claim();
    acquire(&store, &second).await;
    assert_eq!(abandoned(&store, &second).await, AbandonOutcome::Abandoned);
    complete(&store, &second, &completion(b"found out itself")).await;
}

/// A late call cannot abandon the reservation of the new owner.
pub async fn does_not_abandon_after_the_lease_was_taken_over(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let late = Claim { lease: NONE, ..claim() };
    acquire(&store, &late).await;
    take_over(&store, &Claim { lease: HOUR, ..again(&late) }).await;
    assert_eq!(abandoned(&store, &late).await, AbandonOutcome::NotHeld);
    assert_in_flight(&store, &again(&late)).await;
}

/// An abandonment does not change a completed record.
pub async fn does_not_abandon_a_completed_record(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"first")).await;
    assert_eq!(abandoned(&store, &first).await, AbandonOutcome::NotHeld);
    replay(&store, &again(&first)).await;
}

/// The search finds the reservations of all users whose leases ended, within the lookback and at most one batch.
pub async fn finds_abandoned_reservations_oldest_first(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let mut expected = Vec::new();
    for number in 0..3 {
        let claim = Claim { lease: if number == 1 { HOUR } else { NONE }, ..claim() };
        let as_arrived = (number == 2).then(|| [1; 32].into());
        let claim = Claim { request: RequestHashes::new(*claim.request.canonical(), as_arrived), ..claim };
        acquire(&store, &claim).await;
        if number == 1 {
            assert_eq!(abandoned(&store, &claim).await, AbandonOutcome::Abandoned);
        }
        let Claim { reservation: Reservation { owner, key, .. }, procedure, request, .. } = claim;
        expected.push(AbandonedKey { owner, key, procedure, request });
        // Stores may order by milliseconds.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let procedure = claim().procedure;
    let all = search(&["/other.v1.Service/Create", &procedure]);
    assert_eq!(found(&store, &all).await, expected);
    assert_eq!(found(&store, &AbandonedQuery { batch: 2, ..all.clone() }).await, expected[..2]);
    assert_eq!(found(&store, &AbandonedQuery { lookback: Some(HOUR), ..all.clone() }).await, expected);
    assert_eq!(found(&store, &AbandonedQuery { lookback: Some(NONE), ..all }).await, []);
}

/// The search does not find running, completed or expired records, other procedures, or reservations with too many
/// attempts.
pub async fn does_not_find_what_is_not_abandoned(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let running = claim();
    acquire(&store, &running).await;
    let done = Claim { lease: NONE, ..claim() };
    acquire(&store, &done).await;
    complete(&store, &done, &completion(b"done")).await;
    let failed = Claim { lease: NONE, ..claim() };
    acquire(&store, &failed).await;
    complete(&store, &failed, &failure(b"no")).await;
    let expired = Claim { lease: NONE, retention: NONE, ..claim() };
    acquire(&store, &expired).await;
    let tried = Claim { lease: NONE, ..claim() };
    acquire(&store, &tried).await;
    take_over(&store, &again(&tried)).await;

    let all = search(&[&running.procedure]);
    assert_eq!(found(&store, &search(&["/other.v1.Service/Create"])).await, []);
    let tried = tried.reservation.key;
    assert_eq!(found(&store, &all).await.iter().map(|found| found.key).collect::<Vec<_>>(), [tried]);
    assert_eq!(found(&store, &AbandonedQuery { max_attempts: 2, ..all }).await, []);
}

fn search(procedures: &[&str]) -> AbandonedQuery {
    let procedures = procedures.iter().map(|&procedure| procedure.to_owned()).collect();
    AbandonedQuery { procedures, lookback: None, max_attempts: 3, batch: 100 }
}

async fn found(store: &impl Store, search: &AbandonedQuery) -> Vec<AbandonedKey> {
    store.abandoned(search).await.expect("the store answers a search")
}
