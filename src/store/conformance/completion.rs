//! Completion, and its fencing.

use super::{
    Harness,
    support::{
        HOUR, NONE, acquire, again, assert_in_flight, claim, complete, completed, completion, failure, released,
        replay, take_over,
    },
};
use crate::store::{Claim, CompleteOutcome, ReleaseOutcome, StoredResponse};

/// A completed call is replayed any number of times.
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

/// A final error is an outcome like a response: it is replayed, and neither completed again nor released.
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

/// After a takeover, the late call cannot complete, and the new owner can.
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

/// A completion without a claim is fenced, and records nothing.
pub async fn does_not_complete_what_was_not_claimed(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let never = claim();
    assert_eq!(completed(&store, &never, &completion(b"never")).await, CompleteOutcome::Fenced);
    acquire(&store, &again(&never)).await;
}

/// A completion after the release of the key is fenced.
pub async fn does_not_complete_what_was_released(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    assert_eq!(released(&store, &first).await, ReleaseOutcome::Released);
    assert_eq!(completed(&store, &first, &completion(b"late")).await, CompleteOutcome::Fenced);
}
