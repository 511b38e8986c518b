//! The contents of replays, and the status of resources.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::{
    Harness,
    support::{HOUR, acquire, again, claim, complete, completion, failure, replay},
};
use crate::{
    status::{OutboxStatus, Resource},
    store::{CallSession, Claim, Completion, Store as _, StoredMessage, StoredResponse},
};

/// An empty message is replayed as an empty message.
pub async fn completes_with_an_empty_response(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, &completion(b"")).await;
    assert_eq!(replay(&store, &again(&first)).await.response, StoredResponse::message(""));
}

/// The metadata of a response is replayed byte for byte. No metadata differs from empty metadata.
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

/// A response that only the holder of a key reads is replayed byte for byte, with the resource in the open.
pub async fn completes_with_a_sealed_response(harness: &impl Harness) {
    let (store, fixture) = harness.store().await;
    let resource = harness.resource(&store, &fixture, None).await;
    for envelope in [b"\x00\x01envelope\xff".as_slice(), b"\x00"] {
        let first = Claim { resource_type: Some(resource.resource_type.clone()), ..claim() };
        let response = StoredResponse::Sealed(envelope.into());
        let sealed = Completion { response: response.clone(), resource: Some(resource.clone()), retention: HOUR };
        acquire(&store, &first).await;
        complete(&store, &first, &sealed).await;
        for _ in 0..2 {
            let replay = replay(&store, &again(&first)).await;
            assert_eq!((&replay.response, replay.resource.as_ref()), (&response, Some(&resource.id)));
        }
    }
}

/// A completion without a stored response still stores the resource.
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

/// A replay contains the created resource and its newest status, whatever is stored of the response.
pub async fn completes_with_a_resource_and_its_status(harness: &impl Harness) {
    let statuses = [
        None,
        Some(OutboxStatus::Pending),
        Some(OutboxStatus::Retrying),
        Some(OutboxStatus::Completed),
        Some(OutboxStatus::Failed),
    ];
    let sealed = StoredResponse::Sealed(b"\x00sealed".as_slice().into());
    let (store, fixture) = harness.store().await;
    for response in [StoredResponse::message("a"), StoredResponse::NotStored, sealed] {
        for status in statuses {
            let resource = harness.resource(&store, &fixture, status).await;
            let first = Claim { resource_type: Some(resource.resource_type.clone()), ..claim() };
            acquire(&store, &first).await;
            let completion =
                Completion { response: response.clone(), resource: Some(resource.clone()), ..completion(b"a") };
            complete(&store, &first, &completion).await;
            let replay = replay(&store, &again(&first)).await;
            assert_eq!(replay.resource, Some(resource.id));
            assert_eq!(replay.status.expect("a status"), status.filter(|_| store.has_statuses()), "{response:?}");
        }
    }
}

/// A replay contains the time that the record still lives: its retention, counted from the claim or from later on, for every
/// kind of response.
pub async fn tells_how_long_a_completed_record_lives(harness: &impl Harness) {
    let (store, _fixture) = harness.store().await;
    let not_stored = Completion { response: StoredResponse::NotStored, ..completion(b"") };
    for completion in [completion(b"first"), failure(b"first"), not_stored] {
        for retention in [HOUR, 2 * HOUR] {
            let (first, asked) = (Claim { retention, ..claim() }, Instant::now());
            acquire(&store, &first).await;
            complete(&store, &first, &Completion { retention, ..completion.clone() }).await;
            let left = replay(&store, &again(&first)).await.expires_in;
            let passed = asked.elapsed() + Duration::from_millis(1);
            assert!(left <= retention && left + passed >= retention, "{left:?} of {retention:?} after {passed:?}");
        }
    }
}

/// The store returns the status of a resource on its own.
pub async fn knows_the_status_of_a_resource(harness: &impl Harness) {
    let (store, fixture) = harness.store().await;
    let session = CallSession::default();
    let failed = harness.resource(&store, &fixture, Some(OutboxStatus::Failed)).await;
    let known = store.has_statuses().then_some(OutboxStatus::Failed);
    assert_eq!(store.status(&session, &failed).await.expect("the store answers"), known);
    let unknown = Resource { id: Uuid::new_v4().into(), ..failed };
    assert_eq!(store.status(&session, &unknown).await.expect("the store answers"), None);
}
