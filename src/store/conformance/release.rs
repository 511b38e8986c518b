//! Release of reservations.

use super::{
    Harness,
    support::{
        HOUR, NONE, abandoned, acquire, again, assert_in_flight, assert_unknown, claim, complete, completion, extended,
        released, replay, take_over,
    },
};
use crate::{
    policy::LeasePolicy,
    store::{AbandonOutcome, Claim, ExtendOutcome, ReleaseOutcome, StoredResponse},
};

/// A released key can be claimed again. A second release changes nothing.
pub async fn releases_a_reservation_held_by_the_caller(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    assert_eq!(released(&store, &first).await, ReleaseOutcome::Released);
    acquire(&store, &again(&first)).await;
    assert_eq!(released(&store, &first).await, ReleaseOutcome::NotHeld);
    assert_in_flight(&store, &again(&first)).await;
}

/// A release after a takeover does not delete the reservation: the record of an earlier call without an outcome must
/// not be lost. (A call can release a reservation without knowing that it took it over, if the answer to its claim was
/// lost.)
pub async fn releases_a_reservation_that_was_taken_over_without_forgetting_it(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = Claim { lease: NONE, ..claim() };
    acquire(&store, &first).await;
    let second = Claim { lease: HOUR, ..again(&first) };
    take_over(&store, &second).await;
    assert_eq!(released(&store, &second).await, ReleaseOutcome::Released);
    assert_eq!(extended(&store, &second, HOUR).await, ExtendOutcome::NotHeld);
    assert_unknown(&store, &Claim { on_lease_ended: LeasePolicy::Refuse, ..again(&first) }).await;
    take_over(&store, &Claim { lease: HOUR, ..again(&first) }).await;

    // The same after an abandonment: the outcome stays unknown.
    let first = claim();
    acquire(&store, &first).await;
    assert_eq!(abandoned(&store, &first).await, AbandonOutcome::Abandoned);
    let reconciler = Claim { on_lease_ended: LeasePolicy::Reconcile, ..again(&first) };
    take_over(&store, &reconciler).await;
    assert_eq!(released(&store, &reconciler).await, ReleaseOutcome::Released);
    assert_unknown(&store, &Claim { on_lease_ended: LeasePolicy::Rerun, ..again(&first) }).await;
    take_over(&store, &Claim { lease: NONE, ..again(&reconciler) }).await;
    // Also for a server with another policy, after the lease of the reconciler has ended.
    assert_unknown(&store, &Claim { on_lease_ended: LeasePolicy::Rerun, ..again(&first) }).await;
}

/// A release does not change a completed record.
pub async fn does_not_release_a_completed_record(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"first")).await;
    assert_eq!(released(&store, &first).await, ReleaseOutcome::NotHeld);
    assert_eq!(replay(&store, &again(&first)).await.response, StoredResponse::message("first"));
}

/// A late call cannot release the reservation of the new owner.
pub async fn does_not_release_after_the_lease_was_taken_over(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let late = Claim { lease: NONE, ..claim() };
    acquire(&store, &late).await;
    let owner = Claim { lease: HOUR, ..again(&late) };
    take_over(&store, &owner).await;
    assert_eq!(released(&store, &late).await, ReleaseOutcome::NotHeld);
    complete(&store, &owner, &completion(b"owner")).await;
}
