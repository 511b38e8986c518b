//! Claims and completions for the tests outside the conformance suite.

use std::time::Duration;

use deadpool_postgres::Pool;
use protobuf_canonical::RequestHash;
use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy, Limits},
    store::{
        CallSession, Claim, ClaimOutcome, CompleteOutcome, Completion, PostgresStore, Reservation, Store,
        StoreSettings, StoredResponse,
    },
};
use tonic_idempotency_tests::with_max_batch;
use uuid::Uuid;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const PROCEDURE: &str = "/organization.v1.ProjectService/CreateProject";
pub(crate) const HASH: [u8; 32] = [7; 32];

/// A store on this pool, with timeouts that are long enough for a busy machine.
pub(crate) fn patient(pool: Pool) -> PostgresStore {
    with_max_batch(PostgresStore::new(pool, organization::resource_types()))
        .timeout(Duration::from_secs(30))
        .status_timeout(Duration::from_secs(30))
}

pub(crate) fn claim(user: Uuid, key: Uuid) -> Claim {
    Claim {
        reservation: Reservation::new(OwnerId::new(user), KeyId::new(key)),
        session: CallSession { user: Some(user), settings: None },
        procedure: PROCEDURE.to_owned(),
        request: RequestHash::from(HASH).into(),
        lease: HOUR,
        retention: HOUR,
        on_lease_ended: LeasePolicy::Rerun,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: Some("project".to_owned()),
    }
}

pub(crate) fn again(claim: &Claim) -> Claim {
    let Reservation { owner, key, .. } = claim.reservation;
    Claim { reservation: Reservation::new(owner, key), ..claim.clone() }
}

pub(crate) fn completion(message: &'static str) -> Completion {
    Completion { response: StoredResponse::message(message), resource: None, retention: HOUR }
}

pub(crate) async fn acquire(store: &impl Store, claim: &Claim) {
    let outcome = store.claim(claim).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
}

pub(crate) async fn take_over(store: &impl Store, claim: &Claim) {
    let outcome = store.claim(claim).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::TakenOver), "{outcome:?}");
}

/// Makes a completed record.
pub(crate) async fn complete(store: &impl Store, claim: &Claim, completion: &Completion) {
    acquire(store, claim).await;
    let outcome = store.complete(&claim.reservation, completion).await.expect("the store answers");
    assert_eq!(outcome, CompleteOutcome::Completed);
}

/// The store with a limit of the records that one user may have.
pub(crate) fn limited(store: PostgresStore, records: u64) -> PostgresStore {
    let limits = Limits { records: Some(records), ..Limits::default() };
    store.set_up(&StoreSettings { limits, status_timeout: None });
    store
}
