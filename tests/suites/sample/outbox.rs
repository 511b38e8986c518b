//! The status of a resource, which depends on the outbox.

use serde_json::json;
use uuid::Uuid;

use super::{
    call::{Call, Reply},
    eventually::eventually,
    subject::Sample,
};

/// Makes every outbox row older than the sample's outbox delay.
const AGE: &str = "UPDATE authz.outbox SET created = created - interval '2 hours'";

/// Repeats the call until the status is not `processing`.
async fn processed(sample: &Sample, call: &Call) -> Reply {
    eventually("the outbox is processed", || async {
        let replay = sample.as_alice(call.clone()).await.succeeded();
        (replay.status() != Some("processing")).then_some(replay)
    })
    .await
}

#[tokio::test]
async fn the_status_moves_from_processing_to_completed() {
    let Some(sample) = Sample::start(&["--outbox-delay", "1h"]).await else { return };
    let call = sample.create_project("shop").key(Uuid::new_v4());
    let first = sample.as_alice(call.clone()).await.succeeded();
    assert_eq!(sample.as_alice(call.clone()).await.succeeded().status(), Some("processing"));

    sample.client.execute(AGE, &[]).await.expect("the rows age");
    let replay = processed(&sample, &call).await;
    assert_eq!(replay.status(), Some("completed"));
    assert_eq!(replay.body, first.body);
}

#[tokio::test]
async fn the_status_moves_from_processing_to_failed() {
    let Some(sample) = Sample::start(&["--outbox-delay", "1h"]).await else { return };
    let invite = json!({ "email": "fail-carol@example.com", "role": "viewer" });
    let calls = [sample.create_project("fail-shop"), Call::new("InviteService/InviteMember", invite)];
    for call in calls.map(|call| call.key(Uuid::new_v4())) {
        sample.as_alice(call.clone()).await.succeeded();
        assert_eq!(sample.as_alice(call.clone()).await.succeeded().status(), Some("processing"));

        sample.client.execute(AGE, &[]).await.expect("the rows age");
        assert_eq!(processed(&sample, &call).await.status(), Some("failed"));
    }
    let retried = "SELECT count(*) FROM authz.outbox WHERE status = 'failed' AND retries = 1 AND processed IS NOT NULL";
    let retried: i64 = sample.client.query_one(retried, &[]).await.expect("a count").get(0);
    assert_eq!(retried, 2);
}

#[tokio::test]
async fn is_processed_after_the_connections_were_cut() {
    let Some(sample) = Sample::start(&["--outbox-delay", "0s"]).await else { return };
    sample.as_alice(sample.create_project("before").key(Uuid::new_v4())).await.succeeded();

    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let cut: i64 = sample.client.query_one(cut, &[]).await.expect("the connections are cut").get(0);
    assert!(cut >= 2, "the API's and the worker's");

    let call = sample.create_project("after").key(Uuid::new_v4());
    eventually("the API is back", || async {
        let reply = sample.as_alice(call.clone()).await;
        (reply.code == 0).then_some(())
    })
    .await;
    assert_eq!(processed(&sample, &call).await.status(), Some("completed"));
}
