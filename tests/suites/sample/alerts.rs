//! Faults of the sample bring the series of the rules for Prometheus into its metrics. Windows of a day, and how long a fault has to last, are
//! promtool's.

use serde_json::json;
use tonic_idempotency_tests::rules::rules;
use uuid::Uuid;

use super::{
    call::Call,
    eventually::eventually,
    hog::spawn,
    subject::{NEVER, Sample},
};

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    eventually(what, || async { condition().await.then_some(()) }).await;
}

/// Takes the API's rights away: calls are refused by the store.
pub(crate) async fn forbid(sample: &Sample) {
    let revoke = "REVOKE ALL ON ALL TABLES IN SCHEMA tenant FROM organization_api;
                  REVOKE ALL ON ALL ROUTINES IN SCHEMA tenant FROM organization_api";
    sample.client.batch_execute(revoke).await.expect("no rights");
    let reply = sample.as_alice(sample.create_project("other").key(Uuid::new_v4())).await;
    assert_eq!(reply.reason(), "IDEMPOTENCY_STORE_FAILED");
}

fn invite(key: Uuid, role: &str) -> Call {
    Call::new("InviteService/InviteMember", json!({ "email": "carol@example.org", "role": role })).key(key)
}

/// Asserts that the sample's metrics have what these rules look at.
#[track_caller]
fn assert_seen(metrics: &str, alerts: &[&str]) {
    let rules = rules();
    for alert in alerts {
        rules.iter().find(|rule| rule.alert == *alert).expect("a rule").assert_has_series(metrics);
    }
}

async fn has(sample: &Sample, series: &str) -> bool {
    let metrics = sample.metrics().await;
    metrics.lines().any(|line| line.starts_with(series) && !line.ends_with(" 0"))
}

#[tokio::test]
async fn a_right_that_is_missing() {
    let Some(sample) = Sample::start(&[]).await else { return };
    forbid(&sample).await;
    assert_seen(&sample.metrics().await, &["IdempotencyStoreFails"]);
}

#[tokio::test]
async fn a_store_that_is_away() {
    let Some((sample, proxy)) = Sample::start_through_proxy(&[]).await else { return };
    sample.as_alice(invite(Uuid::new_v4(), "viewer")).await.succeeded();
    proxy.cut();
    until("calls are refused", async || {
        sample.as_alice(sample.create_project("shop").key(Uuid::new_v4())).await;
        has(&sample, "idempotency_rejected_total").await
    })
    .await;
    sample.as_alice(invite(Uuid::new_v4(), "viewer")).await;
    let metrics = sample.metrics().await;
    assert_seen(&metrics, &["IdempotencyStoreAway", "IdempotencyCallsRunUnprotected"]);
    assert_seen(&metrics, &["IdempotencyClaimsSlow", "IdempotencyRecordsSlow", "IdempotencyHandlersSlow"]);
}

#[tokio::test]
async fn a_handler_that_hangs_and_a_client_that_reuses_its_key() {
    let flags = ["--handler-delay", NEVER, "--handler-timeout", "3s", "--lease", "10m"];
    let Some(sample) = Sample::start(&flags).await else { return };
    let key = Uuid::new_v4();
    let mut first = spawn(&sample, invite(key, "viewer"));
    until("it runs", async || sample.completed(key).await == Some(false)).await;
    assert_seen(&sample.metrics().await, &["IdempotencyCallsInFlight"]);
    let reply = sample.as_alice(invite(key, "admin")).await;
    assert_eq!(reply.reason(), "IDEMPOTENCY_KEY_REUSED");
    first.wait().await.expect("it ends");
    assert_seen(&sample.metrics().await, &["IdempotencyHandlersTimedOut", "IdempotencyKeysReused"]);
}

#[tokio::test]
async fn an_outcome_that_waits_and_a_lease_that_is_lost() {
    let flags = ["--handler-delay", "2s", "--lease", "1s"];
    let Some((sample, proxy)) = Sample::start_through_proxy(&flags).await else { return };
    let key = Uuid::new_v4();
    let mut call = spawn(&sample, invite(key, "viewer"));
    until("it runs", async || sample.completed(key).await == Some(false)).await;
    let taken =
        "UPDATE tenant.idempotency_keys SET token = gen_random_uuid(), lease_expires = now() + interval '1 hour'";
    sample.client.batch_execute(taken).await.expect("another holds the key");
    until("it is seen", async || has(&sample, "idempotency_lease_lost_total").await).await;
    assert_seen(&sample.metrics().await, &["IdempotencyLeasesLost"]);
    call.wait().await.expect("it ends");

    let key = Uuid::new_v4();
    let mut call = spawn(&sample, invite(key, "viewer"));
    until("it runs", async || sample.completed(key).await == Some(false)).await;
    proxy.cut();
    until("its outcome waits", async || has(&sample, "idempotency_outcomes_waiting").await).await;
    assert_seen(&sample.metrics().await, &["IdempotencyOutcomesWait"]);
    call.wait().await.expect("it ends");
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_and_one_that_sweeps() {
    let flags = ["--mode", "reserved", "--lease", "1s", "--on-lease-ended", "refuse"];
    let Some(sample) = Sample::start(&[&flags[..], &["--handler-delay", NEVER]].concat()).await else { return };
    let key = Uuid::new_v4();
    let mut call = spawn(&sample, invite(key, "viewer"));
    until("it runs", async || sample.completed(key).await == Some(false)).await;
    let sample = sample.crash(&flags).await;
    call.wait().await.expect("it ends");
    let ended = "UPDATE tenant.idempotency_keys SET lease_expires = now() - interval '1 second'";
    sample.client.batch_execute(ended).await.expect("time");
    // Recovery counts at its start.
    let sample = sample.restart(&flags).await;
    until("it is counted", async || has(&sample, "idempotency_unknown").await).await;
    assert_seen(&sample.metrics().await, &["IdempotencyOutcomesUnknown"]);

    // Its sweeper has had nothing to delete yet.
    sample.as_alice(invite(Uuid::new_v4(), "viewer")).await.succeeded();
    let swept = async || sample.metrics().await.contains("\nidempotency_swept_total 0\n");
    until("it has swept", swept).await;
    let first = r#"idempotency_calls_total{procedure="/organization.v1.InviteService/InviteMember",outcome="first"} 1"#;
    assert!(has(&sample, first).await);
}

#[tokio::test]
async fn a_limit_that_is_reached() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let blocker = sample.database.connect().await;
    let lock = format!("BEGIN; SELECT FROM tenant.clusters WHERE id = '{}' FOR UPDATE", sample.ready.cluster_id);
    blocker.batch_execute(&lock).await.expect("the lock");
    // More than she may have transactions. The others give up after a while.
    let calls: Vec<_> = (0..20).map(|_| spawn(&sample, sample.create_project("shop").key(Uuid::new_v4()))).collect();
    let refused = r#"idempotency_rejected_total{procedure="/organization.v1.ProjectService/CreateProject",reason="IDEMPOTENCY_OVERLOADED"}"#;
    until("calls are refused", async || has(&sample, refused).await).await;
    assert_seen(&sample.metrics().await, &["IdempotencyOverloaded"]);
    drop(calls);
}
