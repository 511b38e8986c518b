//! `InviteMember`, with a process that dies between the invitation and its mail.

use std::process::Stdio;

use serde_json::json;
use uuid::Uuid;

use super::{
    call::Call,
    eventually::eventually,
    subject::{NEVER, Sample},
};

fn invite(key: Uuid) -> Call {
    Call::new("InviteService/InviteMember", json!({ "email": "carol@example.org", "role": "viewer" })).key(key)
}

/// Sends an invitation, and kills the process when `reached` is true. Retries until there is a response, and checks
/// that there is one invitation, one mail, and one response.
async fn dies_when(
    flags: &[&str],
    stuck: Option<&str>,
    reached: impl AsyncFn(&Sample) -> bool,
    expected_replay: Option<&str>,
) {
    let Some(sample) = Sample::start(flags).await else { return };
    let blocker = sample.database.connect().await;
    if let Some(table) = stuck {
        let lock = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
        blocker.batch_execute(&lock).await.expect("the lock");
    }
    let key = Uuid::new_v4();
    let call = invite(key).header("authorization", format!("Bearer {}", sample.ready.tokens.alice));
    let mut command = sample.grpcurl.command(&call.arguments(), sample.ready.address, &call.procedure);
    let mut grpcurl = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("grpcurl runs");
    eventually("the call has reached the point of the crash", || async { reached(&sample).await.then_some(()) }).await;

    let sample = sample.crash(&["--lease", "1s"]).await;
    assert!(!grpcurl.wait().await.expect("grpcurl ends").success());
    blocker.batch_execute("ROLLBACK").await.expect("the lock is gone");
    let first = eventually("a retry has a response", || async {
        let reply = sample.as_alice(invite(key)).await;
        (reply.code == 0).then_some(reply)
    })
    .await;
    assert_eq!(first.replayed(), expected_replay);
    let replay = sample.as_alice(invite(key)).await.succeeded();
    assert_eq!((replay.replayed(), replay.field("invitationId")), (Some("true"), first.field("invitationId")));
    let counts = [sample.count("tenant.organization_users").await, sample.count("tenant.mails").await];
    assert_eq!(counts, [1, 1]);
}

#[tokio::test]
async fn finds_a_committed_invitation_and_sends_its_mail() {
    let written = async |sample: &Sample| sample.count("tenant.organization_users").await == 1;
    dies_when(&["--lease", "1s"], Some("tenant.mails"), written, Some("true")).await;
}

#[tokio::test]
async fn creates_an_invitation_that_was_not_committed() {
    let reserved = async |sample: &Sample| sample.count("tenant.idempotency_keys").await == 1;
    dies_when(&["--lease", "1s", "--handler-delay", NEVER], None, reserved, None).await;
}
