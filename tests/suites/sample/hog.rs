//! A user who holds every transaction that one user may have, and another user.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Child;
use uuid::Uuid;

use super::{call::Call, eventually::eventually, subject::Sample};

/// More calls than the sample has connections.
const CALLS: usize = 40;

/// Makes a request.
type MakeRequest = fn() -> Value;

/// A transactional call and a reserved one that do not need the locked row, and the tables that they write.
const OTHERS: [(&str, MakeRequest, &str); 2] = [
    ("ClusterService/CreateCluster", || json!({ "name": "other", "region": "nl-1" }), "tenant.clusters"),
    (
        "InviteService/InviteMember",
        || json!({ "email": "other@example.org", "role": "viewer" }),
        "tenant.organization_users",
    ),
];

/// The calls of this database that wait for a lock.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Makes a call in the background, for Alice.
pub(crate) fn spawn(sample: &Sample, call: Call) -> Child {
    let call = call.header("authorization", format_args!("Bearer {}", sample.ready.tokens.alice));
    let mut command = sample.grpcurl.command(&call.arguments(), sample.ready.address, &call.procedure);
    command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().expect("grpcurl runs")
}

/// Makes a call and its retry for Bob.
async fn call_and_retry(sample: &Sample, procedure: &str, request: Value) {
    let call = Call::new(procedure, request).key(Uuid::new_v4());
    let first = sample.as_bob(call.clone()).await.succeeded();
    let retry = sample.as_bob(call).await.succeeded();
    assert_eq!((first.replayed(), retry.replayed()), (None, Some("true")));
    assert_eq!(first.body, retry.body);
}

#[tokio::test]
async fn a_user_who_holds_every_transaction_leaves_another_users_calls_alone() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let blocker = sample.database.connect().await;
    let lock = format!("BEGIN; SELECT FROM tenant.clusters WHERE id = '{}' FOR UPDATE", sample.ready.cluster_id);
    blocker.batch_execute(&lock).await.expect("the lock");
    let calls: Vec<_> = (0..CALLS).map(|_| spawn(&sample, sample.create_project("shop").key(Uuid::new_v4()))).collect();
    // Of three quarters of the pool's 16 connections all but one.
    eventually("she has all transactions that she may have", || async {
        let waiting: i64 = sample.client.query_one(WAITING, &[]).await.expect("a count").get(0);
        (waiting == 11).then_some(())
    })
    .await;

    for (procedure, request, table) in OTHERS {
        let before = sample.count(table).await;
        call_and_retry(&sample, procedure, request()).await;
        assert_eq!(sample.count(table).await - before, 1, "{procedure}");
    }
    // However long that took, it did not wait for her.
    let waiting: i64 = sample.client.query_one(WAITING, &[]).await.expect("a count").get(0);
    assert_eq!(waiting, 11, "she has held her transactions all the time");
    drop((calls, blocker));
}
