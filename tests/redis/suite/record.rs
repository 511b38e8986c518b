//! Claims and completions that the tests share.

use std::time::Duration;

use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    store::{
        CallSession, Claim, ClaimOutcome, Completion, KeyState, LookUp, RequestHash, Reservation, Store, StoredResponse,
    },
};
use uuid::Uuid;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn claim() -> Claim {
    Claim {
        reservation: Reservation::new(OwnerId::new(Uuid::new_v4()), KeyId::new(Uuid::new_v4())),
        session: CallSession::default(),
        procedure: "/shop.v1.Shop/CreateOrder".to_owned(),
        request: RequestHash::from([7; 32]).into(),
        lease: HOUR,
        retention: HOUR,
        on_lease_ended: LeasePolicy::Rerun,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: None,
    }
}

/// Returns the same call with another token.
pub(crate) fn again(claim: &Claim) -> Claim {
    let Reservation { owner, key, .. } = claim.reservation;
    Claim { reservation: Reservation::new(owner, key), ..claim.clone() }
}

pub(crate) fn completion(message: &'static str) -> Completion {
    Completion { response: StoredResponse::message(message), resource: None, retention: HOUR }
}

/// The name of the record of a claim, in a store with this prefix.
pub(crate) fn name_of(claim: &Claim, prefix: &str) -> String {
    format!("{prefix}:{{{}:{}}}", claim.reservation.owner.as_uuid(), claim.reservation.key.as_uuid())
}

pub(crate) async fn acquire(store: &impl Store, claim: &Claim) {
    let outcome = store.claim(claim).await.expect("the store answers a claim");
    assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
}

pub(crate) async fn complete(store: &impl Store, claim: &Claim, message: &'static str) {
    store.complete(&claim.reservation, &completion(message)).await.expect("the store answers a completion");
}

/// Asserts that another claim of the key is given this response.
pub(crate) async fn assert_replayed(store: &impl Store, claim: &Claim, message: &'static str) {
    match store.claim(&again(claim)).await.expect("the store answers a claim") {
        ClaimOutcome::Replay(replay) => assert_eq!(replay.response, StoredResponse::message(message)),
        other => panic!("no replay but {other:?}"),
    }
}

pub(crate) async fn state(store: &impl Store, claim: &Claim) -> KeyState {
    let Reservation { owner, key, .. } = claim.reservation;
    let question = LookUp { owner, key, session: CallSession::default(), with_status: false };
    store.look_up(&question).await.expect("the store answers a look-up").state
}
