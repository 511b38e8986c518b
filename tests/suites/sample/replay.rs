//! Replays of the sample's responses.

use uuid::Uuid;

use super::subject::Sample;

#[tokio::test]
async fn replays_the_first_response() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let call = sample.create_project("shop").key(Uuid::new_v4());

    let first = sample.as_alice(call.clone()).await.succeeded();
    assert_eq!(first.status(), Some("processing"));
    assert_eq!(first.replayed(), None);

    for _ in 0..2 {
        let replay = sample.as_alice(call.clone()).await.succeeded();
        assert_eq!(replay.body, first.body);
        assert_eq!(replay.status(), Some("processing"));
        assert_eq!(replay.replayed(), Some("true"));
    }
    assert_eq!(sample.count("tenant.projects").await, 1);
}

#[tokio::test]
async fn replays_a_key_that_is_quoted_as_in_the_ietf_draft() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let (call, key) = (sample.create_project("shop"), Uuid::new_v4());
    let first = sample.as_alice(call.clone().key(key)).await.succeeded();
    let replay = sample.as_alice(call.key(format!("\"{key}\""))).await.succeeded();
    assert_eq!(replay.body, first.body);
    assert_eq!(replay.replayed(), Some("true"));
}

#[tokio::test]
async fn replays_after_a_restart() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let call = sample.create_project("shop").key(Uuid::new_v4());
    let first = sample.as_alice(call.clone()).await.succeeded();

    let sample = sample.restart(&[]).await;
    let replay = sample.as_alice(call).await.succeeded();
    assert_eq!(replay.body, first.body);
    assert_eq!(replay.replayed(), Some("true"));
    assert_eq!(sample.count("tenant.projects").await, 1);
}

#[tokio::test]
async fn does_not_replay_another_users_response() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let call = sample.create_project("shop").key(Uuid::new_v4());
    let alice = sample.as_alice(call.clone()).await.succeeded();
    let bob = sample.as_bob(call.clone()).await.succeeded();
    assert_eq!(bob.replayed(), None);
    assert_ne!(bob.field("projectId"), alice.field("projectId"));

    let replay = sample.as_bob(call).await.succeeded();
    assert_eq!(replay.field("projectId"), bob.field("projectId"));
    assert_eq!(sample.count("tenant.projects").await, 2);
}

#[tokio::test]
async fn does_not_replay_without_a_key() {
    let Some(sample) = Sample::start(&[]).await else { return };
    for _ in 0..2 {
        let reply = sample.as_alice(sample.create_project("shop")).await.succeeded();
        assert_eq!(reply.status(), None);
        assert_eq!(reply.replayed(), None);
    }
    assert_eq!(sample.count("tenant.projects").await, 2);
    assert_eq!(sample.count("tenant.idempotency_keys").await, 0);
}

#[tokio::test]
async fn does_not_replay_a_call_that_failed() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let key = Uuid::new_v4();
    let refused = sample.as_alice(sample.create_project("").key(key)).await;
    assert_eq!(refused.code, 3, "INVALID_ARGUMENT");
    assert_eq!(refused.detail("BadRequest")["fieldViolations"][0]["field"], "name");

    let first = sample.as_alice(sample.create_project("shop").key(key)).await.succeeded();
    assert_eq!(first.replayed(), None);
}
