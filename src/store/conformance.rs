//! The tests that every store must pass: the contract of [`Store`] as code.
//!
//! [`store_suite!`](crate::store_suite) makes a test of each case:
//!
//! ```
//! use tonic_idempotency::{store::{MemoryStore, conformance::Harness}, status::{OutboxStatus, Resource}};
//!
//! struct Memory;
//!
//! impl Harness for Memory {
//!     type Store = MemoryStore;
//!     type Fixture = ();
//!
//!     async fn store(&self) -> (MemoryStore, ()) {
//!         (MemoryStore::new(), ())
//!     }
//!
//!     async fn resource(&self, store: &MemoryStore, _: &(), status: Option<OutboxStatus>) -> Resource {
//!         let resource = Resource { resource_type: "project".to_owned(), id: uuid::Uuid::new_v4() };
//!         if let Some(status) = status {
//!             store.set_status(resource.id, status);
//!         }
//!         resource
//!     }
//! }
//!
//! # #[cfg(test)]
//! tonic_idempotency::store_suite!(Memory);
//! ```

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;
use uuid::Uuid;

use super::{
    AbandonOutcome, AbandonedKey, AbandonedQuery, Claim, ClaimOutcome, CompleteOutcome, Completion, ExtendOutcome,
    ReleaseOutcome, Replay, Reservation, Store, StoredMessage, StoredResponse,
};
use crate::{
    key::IdempotencyKey,
    policy::{EffectPolicy, LeasePolicy},
    rejection::Mismatch,
    status::{OutboxStatus, Resource},
    user::UserId,
};
use protobuf_canonical::RequestHash;

/// Makes stores for the suite.
pub trait Harness: Send + Sync {
    /// The store under test. Its clones share their records.
    type Store: Store + Clone;
    /// What has to live as long as the store: a database, say.
    type Fixture: Send + Sync;

    /// A store without records, of its own.
    fn store(&self) -> impl Future<Output = (Self::Store, Self::Fixture)> + Send;

    /// A resource that exists, so that a completion can refer to it, and the status of the work behind it.
    fn resource(
        &self,
        store: &Self::Store,
        fixture: &Self::Fixture,
        status: Option<OutboxStatus>,
    ) -> impl Future<Output = Resource> + Send;
}

/// Makes a `#[tokio::test]` of each case of the suite, for the [`Harness`] that the expression gives.
///
/// The crate that calls it needs tokio with the features `macros`, `rt-multi-thread` and `time`.
#[macro_export]
macro_rules! store_suite {
    ($harness:expr) => {
        $crate::store_suite! {
            @tests $harness;
            full_matrix
            acquires_a_key_that_is_absent
            acquires_a_key_again_with_the_token_that_holds_it
            acquires_a_key_for_one_of_many_at_once
            acquires_a_key_whose_record_expired
            takes_over_a_key_whose_lease_ended
            takes_over_a_key_again_with_the_token_that_holds_it
            does_not_take_over_a_key_whose_lease_ended_with_refuse
            does_not_acquire_a_key_in_flight
            does_not_acquire_a_key_of_another_procedure
            does_not_acquire_a_key_of_another_request
            tells_a_mismatch_before_anything_else
            keeps_the_keys_of_two_users_apart
            completes_a_reservation_held_by_the_caller
            completes_once
            completes_with_an_empty_response
            completes_with_a_resource_and_its_status
            completes_with_metadata
            completes_without_keeping_a_response
            completes_with_an_error
            tells_how_long_a_completed_record_lives
            does_not_complete_after_the_lease_was_taken_over
            does_not_complete_what_was_not_claimed
            does_not_complete_what_was_released
            releases_a_reservation_held_by_the_caller
            releases_a_reservation_that_was_taken_over_without_forgetting_it
            does_not_release_a_completed_record
            does_not_release_after_the_lease_was_taken_over
            extends_a_lease_held_by_the_caller
            extends_a_lease_that_has_ended_and_was_not_taken_over
            does_not_extend_after_the_lease_was_taken_over
            does_not_extend_what_has_ended
            abandons_a_reservation_held_by_the_caller
            does_not_abandon_after_the_lease_was_taken_over
            does_not_abandon_a_completed_record
            finds_abandoned_reservations_oldest_first
            does_not_find_what_is_not_abandoned
            sweeps_what_expired_in_batches
            does_not_sweep_what_has_not_expired
            knows_the_status_of_a_resource
        }
    };
    (@tests $harness:expr; $($case:ident)*) => {
        $(
            #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::store::conformance::$case(&$harness).await;
            }
        )*
    };
}

const HOUR: Duration = Duration::from_secs(3600);
/// A time so short that it is over as soon as it has begun.
const NONE: Duration = Duration::ZERO;

fn claim() -> Claim {
    Claim {
        reservation: Reservation::new(UserId::new(Uuid::new_v4()), IdempotencyKey::from(Uuid::new_v4())),
        procedure: "/organization.v1.ProjectService/CreateProject".to_owned(),
        request_hash: RequestHash::from([7; 32]),
        lease: HOUR,
        retention: HOUR,
        on_lease_ended: LeasePolicy::Rerun,
        effect: EffectPolicy::Anywhere,
        resource_type: Some("project".to_owned()),
    }
}

/// The same call by somebody else: another token.
fn again(claim: &Claim) -> Claim {
    let Reservation { user, key, .. } = claim.reservation;
    Claim { reservation: Reservation::new(user, key), ..claim.clone() }
}

fn completion(message: &'static [u8]) -> Completion {
    Completion { response: StoredResponse::message(message), resource: None, retention: HOUR }
}

fn failure(error: &'static [u8]) -> Completion {
    Completion { response: StoredResponse::Error(error.into()), resource: None, retention: HOUR }
}

async fn claimed(store: &impl Store, claim: &Claim) -> ClaimOutcome {
    store.claim(claim).await.expect("the store answers a claim")
}

async fn completed(store: &impl Store, claim: &Claim, completion: &Completion) -> CompleteOutcome {
    store.complete(&claim.reservation, completion).await.expect("the store answers a completion")
}

async fn released(store: &impl Store, claim: &Claim) -> ReleaseOutcome {
    store.release(&claim.reservation).await.expect("the store answers a release")
}

async fn acquire(store: &impl Store, claim: &Claim) {
    let outcome = claimed(store, claim).await;
    assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
}

async fn take_over(store: &impl Store, claim: &Claim) {
    let outcome = claimed(store, claim).await;
    assert!(matches!(outcome, ClaimOutcome::TakenOver), "{outcome:?}");
}

async fn extended(store: &impl Store, claim: &Claim, lease: Duration) -> ExtendOutcome {
    store.extend(&claim.reservation, lease).await.expect("the store answers an extension")
}

async fn abandoned(store: &impl Store, claim: &Claim) -> AbandonOutcome {
    store.abandon(&claim.reservation).await.expect("the store answers an abandonment")
}

async fn assert_unknown(store: &impl Store, claim: &Claim) {
    let outcome = claimed(store, claim).await;
    assert!(matches!(outcome, ClaimOutcome::OutcomeUnknown), "{outcome:?}");
}

async fn complete(store: &impl Store, claim: &Claim, completion: &Completion) {
    assert_eq!(completed(store, claim, completion).await, CompleteOutcome::Completed);
}

async fn replay(store: &impl Store, claim: &Claim) -> Replay {
    match claimed(store, claim).await {
        ClaimOutcome::Replay(replay) => replay,
        other => panic!("no replay but {other:?}"),
    }
}

async fn assert_in_flight(store: &impl Store, claim: &Claim) {
    let outcome = claimed(store, claim).await;
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
}

/// Every row of the table of [`ClaimOutcome`], for a second claim with this policy.
pub async fn full_matrix(harness: &impl Harness) {
    #[derive(Clone, Copy, Debug)]
    enum Record {
        Absent,
        Abandoned,
        Completed { lease: Duration },
        Expired,
        Failed,
        Reserved { lease: Duration },
    }
    let records = [
        Record::Absent,
        Record::Abandoned,
        Record::Completed { lease: HOUR },
        // Completed late, or a while ago: whether the lease still runs is all the same.
        Record::Completed { lease: NONE },
        Record::Expired,
        Record::Failed,
        Record::Reserved { lease: HOUR },
        Record::Reserved { lease: NONE },
    ];
    let (store, _fixture) = harness.store().await;
    for record in records {
        for same_request in [true, false] {
            for policy in [LeasePolicy::Reconcile, LeasePolicy::Refuse, LeasePolicy::Rerun] {
                let case = format!("{record:?}, same request: {same_request}, {policy:?}");
                let first = claim();
                match record {
                    Record::Absent => {}
                    Record::Abandoned => {
                        acquire(&store, &first).await;
                        assert_eq!(abandoned(&store, &first).await, AbandonOutcome::Abandoned);
                    }
                    Record::Completed { lease } => {
                        acquire(&store, &Claim { lease, ..first.clone() }).await;
                        complete(&store, &first, &completion(b"first")).await;
                    }
                    Record::Expired => {
                        acquire(&store, &first).await;
                        complete(&store, &first, &Completion { retention: NONE, ..completion(b"old") }).await;
                    }
                    Record::Failed => {
                        acquire(&store, &first).await;
                        complete(&store, &first, &failure(b"first")).await;
                    }
                    Record::Reserved { lease } => acquire(&store, &Claim { lease, ..first.clone() }).await,
                }
                let second = Claim { on_lease_ended: policy, ..again(&first) };
                let second = match same_request {
                    true => second,
                    false => Claim { request_hash: RequestHash::from([8; 32]), ..second },
                };

                let outcome = claimed(&store, &second).await;

                let as_documented = match (record, same_request, policy) {
                    (Record::Absent | Record::Expired, _, _) => matches!(outcome, ClaimOutcome::Acquired),
                    (_, false, _) => matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Request)),
                    (Record::Completed { .. } | Record::Failed, true, _) => matches!(outcome, ClaimOutcome::Replay(_)),
                    (Record::Reserved { lease: HOUR }, true, _) => matches!(outcome, ClaimOutcome::InFlight { .. }),
                    (Record::Abandoned | Record::Reserved { .. }, true, LeasePolicy::Reconcile)
                    | (Record::Reserved { .. }, true, LeasePolicy::Rerun) => {
                        matches!(outcome, ClaimOutcome::TakenOver)
                    }
                    (Record::Abandoned, true, LeasePolicy::Refuse | LeasePolicy::Rerun)
                    | (Record::Reserved { .. }, true, LeasePolicy::Refuse) => {
                        matches!(outcome, ClaimOutcome::OutcomeUnknown)
                    }
                };
                assert!(as_documented, "{case}: {outcome:?}");
            }
        }
    }
}

/// An absent key is the caller's.
pub async fn acquires_a_key_that_is_absent(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    acquire(&store, &claim()).await;
}

/// A claim whose answer was lost is asked again, and answered the same.
pub async fn acquires_a_key_again_with_the_token_that_holds_it(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let claim = claim();
    acquire(&store, &claim).await;
    acquire(&store, &claim).await;
    assert_in_flight(&store, &again(&claim)).await;
}

/// Of many concurrent claims exactly one acquires; the others find it in flight.
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

/// An expired record is no record, swept or not, whatever it was of.
pub async fn acquires_a_key_whose_record_expired(harness: &impl Harness) {
    let (store, fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    let resource = harness.resource(&store, &fixture, None).await;
    complete(&store, &first, &Completion { resource: Some(resource), retention: NONE, ..completion(b"first") }).await;

    let other = Claim { request_hash: RequestHash::from([8; 32]), ..again(&first) };
    acquire(&store, &other).await;
    complete(&store, &other, &completion(b"second")).await;
    let replay = replay(&store, &again(&other)).await;
    assert_eq!(replay.response, StoredResponse::message("second"));
    assert_eq!(replay.resource, None, "what the expired record had created is not this one's");
}

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

/// A running call keeps its key, and says for how long.
pub async fn does_not_acquire_a_key_in_flight(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    match claimed(&store, &again(&first)).await {
        ClaimOutcome::InFlight { lease_left } => assert!(lease_left <= HOUR && lease_left > HOUR / 2, "{lease_left:?}"),
        other => panic!("not in flight but {other:?}"),
    }
}

/// A key is of one procedure.
pub async fn does_not_acquire_a_key_of_another_procedure(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"first")).await;
    let procedure = "/organization.v1.ClusterService/CreateCluster".to_owned();
    let outcome = claimed(&store, &Claim { procedure, ..again(&first) }).await;
    assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Procedure)), "{outcome:?}");
}

/// A key is of one request.
pub async fn does_not_acquire_a_key_of_another_request(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"first")).await;
    let request_hash = RequestHash::from([8; 32]);
    let outcome = claimed(&store, &Claim { request_hash, ..again(&first) }).await;
    assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Request)), "{outcome:?}");
}

/// Whether the first call runs, or ended its lease, does not matter to another call with its key.
pub async fn tells_a_mismatch_before_anything_else(harness: &impl Harness) {
    for lease in [HOUR, NONE] {
        let (store, _fixture) = harness.store().await;
        let first = Claim { lease, ..claim() };
        acquire(&store, &first).await;
        let request_hash = RequestHash::from([8; 32]);
        let outcome = claimed(&store, &Claim { request_hash, ..again(&first) }).await;
        assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Request)), "{outcome:?}");
        complete(&store, &first, &completion(b"untouched")).await;
    }
}

/// Two users use one key, and do not meet.
pub async fn keeps_the_keys_of_two_users_apart(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let alice = claim();
    let bob =
        Claim { reservation: Reservation { user: UserId::new(Uuid::new_v4()), ..alice.reservation }, ..alice.clone() };
    acquire(&store, &alice).await;
    complete(&store, &alice, &completion(b"alice")).await;
    acquire(&store, &bob).await;
    assert_eq!(released(&store, &bob).await, ReleaseOutcome::Released);
    assert_eq!(completed(&store, &bob, &completion(b"bob")).await, CompleteOutcome::Fenced);
    assert_eq!(replay(&store, &again(&alice)).await.response, StoredResponse::message("alice"));
}

/// A completed call is replayed, as often as one likes.
pub async fn completes_a_reservation_held_by_the_caller(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"\x0a\x01a")).await;
    for _ in 0..3 {
        let replay = replay(&store, &again(&first)).await;
        assert_eq!(replay.response, StoredResponse::message(b"\x0a\x01a".as_slice()));
        assert_eq!(replay.resource, None);
    }
}

/// A second completion changes nothing.
pub async fn completes_once(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"first")).await;
    let second = completed(&store, &first, &completion(b"second")).await;
    assert_eq!(second, CompleteOutcome::AlreadyCompleted);
    assert_eq!(replay(&store, &again(&first)).await.response, StoredResponse::message("first"));
}

/// An empty message is a response.
pub async fn completes_with_an_empty_response(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"")).await;
    assert_eq!(replay(&store, &again(&first)).await.response, StoredResponse::message(""));
}

/// A replay brings the created resource along, and its newest status.
pub async fn completes_with_a_resource_and_its_status(harness: &impl Harness) {
    let statuses = [
        None,
        Some(OutboxStatus::Pending),
        Some(OutboxStatus::Retrying),
        Some(OutboxStatus::Completed),
        Some(OutboxStatus::Failed),
    ];
    let (store, fixture) = harness.store().await;
    for status in statuses {
        let resource = harness.resource(&store, &fixture, status).await;
        let first = Claim { resource_type: Some(resource.resource_type.clone()), ..claim() };
        acquire(&store, &first).await;
        complete(&store, &first, &Completion { resource: Some(resource.clone()), ..completion(b"a") }).await;
        let replay = replay(&store, &again(&first)).await;
        assert_eq!(replay.resource, Some(resource.id));
        assert_eq!(replay.status.expect("a status"), status);
    }
}

/// The metadata of a response comes back with it, byte for byte; and that there is none.
pub async fn completes_with_metadata(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    for (message, metadata) in [
        (b"a".as_slice(), Some(b"\x0a\x00\xff".as_slice())),
        (b"", Some(b"m")),
        (b"a", Some(b"")),
        (b"a", None),
        (b"", None),
    ] {
        let first = claim();
        let response = StoredMessage { message: message.into(), metadata: metadata.map(Into::into) };
        let response = StoredResponse::Message(response);
        acquire(&store, &first).await;
        complete(&store, &first, &Completion { response: response.clone(), ..completion(b"") }).await;
        for _ in 0..2 {
            assert_eq!(replay(&store, &again(&first)).await.response, response);
        }
    }
}

/// A response too large to keep leaves its resource.
pub async fn completes_without_keeping_a_response(harness: &impl Harness) {
    let (store, fixture) = harness.store().await;
    let resource = harness.resource(&store, &fixture, None).await;
    let first = Claim { resource_type: Some(resource.resource_type.clone()), ..claim() };
    acquire(&store, &first).await;
    let not_stored =
        Completion { response: StoredResponse::NotStored, resource: Some(resource.clone()), retention: HOUR };
    complete(&store, &first, &not_stored).await;
    let replay = replay(&store, &again(&first)).await;
    assert_eq!((replay.response, replay.resource), (StoredResponse::NotStored, Some(resource.id)));
}

/// An error that ended the operation is a final outcome like a response.
pub async fn completes_with_an_error(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &failure(b"no")).await;
    assert_eq!(completed(&store, &first, &completion(b"yes")).await, CompleteOutcome::AlreadyCompleted);
    assert_eq!(released(&store, &first).await, ReleaseOutcome::NotHeld);
    for _ in 0..2 {
        let replay = replay(&store, &again(&first)).await;
        assert_eq!((replay.response, replay.resource), (StoredResponse::Error("no".into()), None));
    }
}

/// A replay says how long its record still lives, whatever it is of: a little less than its retention.
pub async fn tells_how_long_a_completed_record_lives(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let not_stored = Completion { response: StoredResponse::NotStored, ..completion(b"") };
    for completion in [completion(b"first"), failure(b"first"), not_stored] {
        for retention in [HOUR, 2 * HOUR] {
            let first = Claim { retention, ..claim() };
            acquire(&store, &first).await;
            complete(&store, &first, &Completion { retention, ..completion.clone() }).await;
            let left = replay(&store, &again(&first)).await.expires_in;
            assert!(left <= retention && left > retention - HOUR / 2, "{left:?} of {retention:?}");
        }
    }
}

/// A worker whose lease was taken over cannot complete, and the new owner can.
pub async fn does_not_complete_after_the_lease_was_taken_over(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let late = Claim { lease: NONE, ..claim() };
    acquire(&store, &late).await;
    let owner = Claim { lease: HOUR, ..again(&late) };
    take_over(&store, &owner).await;
    assert_eq!(completed(&store, &late, &completion(b"late")).await, CompleteOutcome::Fenced);
    assert_in_flight(&store, &again(&late)).await;
    complete(&store, &owner, &completion(b"owner")).await;
    assert_eq!(completed(&store, &late, &completion(b"later")).await, CompleteOutcome::Fenced);
    assert_eq!(replay(&store, &again(&late)).await.response, StoredResponse::message("owner"));
}

/// A completion without a claim records nothing.
pub async fn does_not_complete_what_was_not_claimed(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let never = claim();
    assert_eq!(completed(&store, &never, &completion(b"never")).await, CompleteOutcome::Fenced);
    acquire(&store, &again(&never)).await;
}

/// A released key is not completed by who released it.
pub async fn does_not_complete_what_was_released(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    assert_eq!(released(&store, &first).await, ReleaseOutcome::Released);
    assert_eq!(completed(&store, &first, &completion(b"late")).await, CompleteOutcome::Fenced);
}

/// A released key can be claimed again; a second release changes nothing.
pub async fn releases_a_reservation_held_by_the_caller(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    assert_eq!(released(&store, &first).await, ReleaseOutcome::Released);
    acquire(&store, &again(&first)).await;
    assert_eq!(released(&store, &first).await, ReleaseOutcome::NotHeld);
    assert_in_flight(&store, &again(&first)).await;
}

/// Whoever took a reservation over may release it without knowing that it did, its claim's answer lost. That somebody held it
/// before is not forgotten.
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

    // Nor that nobody knows whether it took effect.
    let first = claim();
    acquire(&store, &first).await;
    assert_eq!(abandoned(&store, &first).await, AbandonOutcome::Abandoned);
    let reconciler = Claim { on_lease_ended: LeasePolicy::Reconcile, ..again(&first) };
    take_over(&store, &reconciler).await;
    assert_eq!(released(&store, &reconciler).await, ReleaseOutcome::Released);
    assert_unknown(&store, &Claim { on_lease_ended: LeasePolicy::Rerun, ..again(&first) }).await;
    take_over(&store, &Claim { lease: NONE, ..again(&reconciler) }).await;
    // A server with another policy, after that one died.
    assert_unknown(&store, &Claim { on_lease_ended: LeasePolicy::Rerun, ..again(&first) }).await;
}

/// A completed record is final.
pub async fn does_not_release_a_completed_record(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"first")).await;
    assert_eq!(released(&store, &first).await, ReleaseOutcome::NotHeld);
    assert_eq!(replay(&store, &again(&first)).await.response, StoredResponse::message("first"));
}

/// A worker whose lease was taken over cannot release the new owner's reservation.
pub async fn does_not_release_after_the_lease_was_taken_over(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let late = Claim { lease: NONE, ..claim() };
    acquire(&store, &late).await;
    let owner = Claim { lease: HOUR, ..again(&late) };
    take_over(&store, &owner).await;
    assert_eq!(released(&store, &late).await, ReleaseOutcome::NotHeld);
    complete(&store, &owner, &completion(b"owner")).await;
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

/// What was abandoned is reconciled, or refused; never run again. Its call may still say how it ended.
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

/// A worker whose lease was taken over cannot end the new owner's.
pub async fn does_not_abandon_after_the_lease_was_taken_over(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let late = Claim { lease: NONE, ..claim() };
    acquire(&store, &late).await;
    take_over(&store, &Claim { lease: HOUR, ..again(&late) }).await;
    assert_eq!(abandoned(&store, &late).await, AbandonOutcome::NotHeld);
    assert_in_flight(&store, &again(&late)).await;
}

/// A completed record is final.
pub async fn does_not_abandon_a_completed_record(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"first")).await;
    assert_eq!(abandoned(&store, &first).await, AbandonOutcome::NotHeld);
    replay(&store, &again(&first)).await;
}

fn search(procedures: &[&str]) -> AbandonedQuery {
    let procedures = procedures.iter().map(|&procedure| procedure.to_owned()).collect();
    AbandonedQuery { procedures, lookback: None, max_attempts: 3, batch: 100 }
}

async fn found(store: &impl Store, search: &AbandonedQuery) -> Vec<AbandonedKey> {
    store.abandoned(search).await.expect("the store answers a search")
}

/// Reservations of all users whose leases ended are found, no more than a batch at a time.
pub async fn finds_abandoned_reservations_oldest_first(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let mut expected = Vec::new();
    for number in 0..3 {
        let claim = Claim { lease: if number == 1 { HOUR } else { NONE }, ..claim() };
        acquire(&store, &claim).await;
        if number == 1 {
            assert_eq!(abandoned(&store, &claim).await, AbandonOutcome::Abandoned);
        }
        let Claim { reservation: Reservation { user, key, .. }, procedure, request_hash, .. } = claim;
        expected.push(AbandonedKey { user, key, procedure, request_hash });
        // The order is by the millisecond.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let procedure = claim().procedure;
    let all = search(&["/other.v1.Service/Create", &procedure]);
    assert_eq!(found(&store, &all).await, expected);
    assert_eq!(found(&store, &AbandonedQuery { batch: 2, ..all.clone() }).await, expected[..2]);
    assert_eq!(found(&store, &AbandonedQuery { lookback: Some(HOUR), ..all.clone() }).await, expected);
    assert_eq!(found(&store, &AbandonedQuery { lookback: Some(NONE), ..all }).await, []);
}

/// Nothing else is found: neither what runs nor what has ended, nor other procedures, nor what was tried often enough.
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

/// Expired records go, of all users, no more than a batch at a time.
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
    assert_eq!(swept, [2, 2, 1, 0]);
}

/// What has not expired stays: reservations, leases that ended, completed records.
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

/// The status of a resource can be asked for on its own.
pub async fn knows_the_status_of_a_resource(harness: &impl Harness) {
    let (store, fixture) = harness.store().await;
    let user = claim().reservation.user;
    let failed = harness.resource(&store, &fixture, Some(OutboxStatus::Failed)).await;
    assert_eq!(store.status(user, &failed).await.expect("the store answers"), Some(OutboxStatus::Failed));
    let unknown = Resource { id: Uuid::new_v4(), ..failed };
    assert_eq!(store.status(user, &unknown).await.expect("the store answers"), None);
}
