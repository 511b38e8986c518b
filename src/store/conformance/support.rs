//! Claims, completions and assertions that the cases share.

use std::time::Duration;

use protobuf_canonical::RequestHash;
use uuid::Uuid;

use crate::{
    caller::OwnerId,
    key::KeyId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    store::{
        AbandonOutcome, CallSession, Claim, ClaimOutcome, CompleteOutcome, Completion, ExtendOutcome, ReleaseOutcome,
        Replay, Reservation, Store, StoredResponse,
    },
};

pub(super) const HOUR: Duration = Duration::from_secs(3600);
/// A lease or retention that is over at once.
pub(super) const NONE: Duration = Duration::ZERO;

pub(super) fn claim() -> Claim {
    Claim {
        reservation: Reservation::new(OwnerId::new(Uuid::new_v4()), KeyId::new(Uuid::new_v4())),
        session: CallSession::default(),
        procedure: "/organization.v1.ProjectService/CreateProject".to_owned(),
        request: RequestHash::from([7; 32]).into(),
        lease: HOUR,
        retention: HOUR,
        on_lease_ended: LeasePolicy::Rerun,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: Some("project".to_owned()),
    }
}

/// Returns the same call with another token.
pub(super) fn again(claim: &Claim) -> Claim {
    let Reservation { owner, key, .. } = claim.reservation;
    Claim { reservation: Reservation::new(owner, key), ..claim.clone() }
}

pub(super) fn completion(message: &'static [u8]) -> Completion {
    Completion { response: StoredResponse::message(message), resource: None, retention: HOUR }
}

pub(super) fn failure(error: &'static [u8]) -> Completion {
    Completion { response: StoredResponse::Error(error.into()), resource: None, retention: HOUR }
}

pub(super) async fn claimed(store: &impl Store, claim: &Claim) -> ClaimOutcome {
    store.claim(claim).await.expect("the store answers a claim")
}

pub(super) async fn completed(store: &impl Store, claim: &Claim, completion: &Completion) -> CompleteOutcome {
    store.complete(&claim.reservation, completion).await.expect("the store answers a completion")
}

pub(super) async fn released(store: &impl Store, claim: &Claim) -> ReleaseOutcome {
    store.release(&claim.reservation).await.expect("the store answers a release")
}

pub(super) async fn acquire(store: &impl Store, claim: &Claim) {
    let outcome = claimed(store, claim).await;
    assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
}

pub(super) async fn take_over(store: &impl Store, claim: &Claim) {
    let outcome = claimed(store, claim).await;
    assert!(matches!(outcome, ClaimOutcome::TakenOver), "{outcome:?}");
}

pub(super) async fn extended(store: &impl Store, claim: &Claim, lease: Duration) -> ExtendOutcome {
    store.extend(&claim.reservation, lease).await.expect("the store answers an extension")
}

pub(super) async fn abandoned(store: &impl Store, claim: &Claim) -> AbandonOutcome {
    store.abandon(&claim.reservation).await.expect("the store answers an abandonment")
}

pub(super) async fn assert_unknown(store: &impl Store, claim: &Claim) {
    let outcome = claimed(store, claim).await;
    assert!(matches!(outcome, ClaimOutcome::OutcomeUnknown), "{outcome:?}");
}

pub(super) async fn complete(store: &impl Store, claim: &Claim, completion: &Completion) {
    assert_eq!(completed(store, claim, completion).await, CompleteOutcome::Completed);
}

pub(super) async fn replay(store: &impl Store, claim: &Claim) -> Replay {
    match claimed(store, claim).await {
        ClaimOutcome::Replay(replay) => replay,
        other => panic!("no replay but {other:?}"),
    }
}

pub(super) async fn assert_in_flight(store: &impl Store, claim: &Claim) {
    let outcome = claimed(store, claim).await;
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
}
