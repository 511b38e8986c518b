//! A user of an identity provider, `auth0|x`, in two organisations.

use organization::{EXTERNAL_USER, ORGANIZATION, OTHER_ORGANIZATION};
use serde_json::json;
use uuid::Uuid;

use super::{
    call::{Call, Reply},
    eventually::eventually,
    subject::Sample,
};

async fn invite(sample: &Sample, token: &str, key: Uuid) -> Reply {
    let call = Call::new("InviteService/InviteMember", json!({ "email": "carol@example.org", "role": "viewer" }));
    sample.send(call.key(key).header("authorization", format_args!("Bearer {token}"))).await.succeeded()
}

/// The organisations of the invitations, and of the records of this key.
async fn organizations(sample: &Sample, key: Uuid) -> [Vec<Uuid>; 2] {
    let invitations = "SELECT organization_id FROM tenant.organization_users ORDER BY 1";
    let invitations = sample.client.query(invitations, &[]).await.expect("the invitations");
    let records = "SELECT o.id FROM tenant.organizations o, tenant.idempotency_keys k
                   WHERE k.idempotency_key = $1 AND k.user_id = tenant.idempotency_owner(o.id::text, $2) ORDER BY 1";
    let records = sample.client.query(records, &[&key, &EXTERNAL_USER]).await.expect("the records");
    [invitations, records].map(|rows| rows.iter().map(|row| row.get(0)).collect())
}

#[tokio::test]
async fn one_key_of_a_user_in_two_tenants_makes_two_effects() {
    for mode in ["reserved", "transactional"] {
        let Some(sample) = Sample::start(&["--mode", mode, "--outbox-delay", "0s"]).await else { return };
        let (key, tokens) = (Uuid::new_v4(), &sample.ready.tokens);
        let mut invitations = Vec::new();
        for token in [&tokens.x_here, &tokens.x_there] {
            let first = invite(&sample, token, key).await;
            assert_eq!((first.status(), first.replayed()), (Some("processing"), None), "{mode}");
            invitations.push(first.field("invitationId").to_owned());
        }
        assert_ne!(invitations[0], invitations[1], "{mode}");
        for (token, invitation) in [&tokens.x_here, &tokens.x_there].into_iter().zip(&invitations) {
            let replay = invite(&sample, token, key).await;
            assert_eq!((replay.replayed(), replay.field("invitationId")), (Some("true"), &**invitation), "{mode}");
            // The outbox is under the row-level security of the tenant.
            eventually("its work is completed", async || {
                (invite(&sample, token, key).await.status() == Some("completed")).then_some(())
            })
            .await;
        }
        let both = vec![ORGANIZATION, OTHER_ORGANIZATION];
        assert_eq!(organizations(&sample, key).await, [both.clone(), both], "{mode}");
    }
}

#[tokio::test]
async fn a_user_sees_the_rows_of_one_tenant_at_a_time() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let tokens = &sample.ready.tokens;
    let here = invite(&sample, &tokens.x_here, Uuid::new_v4()).await;
    for (token, expected) in [(&tokens.x_here, 1), (&tokens.alice, 1), (&tokens.x_there, 0)] {
        let list = Call::new("InviteService/ListInvitations", json!({}));
        let list = sample.send(list.header("authorization", format_args!("Bearer {token}"))).await.succeeded();
        let invitations = list.body["invitations"].as_array().cloned().unwrap_or_default();
        assert_eq!(invitations.len(), expected);
        assert!(invitations.iter().all(|invitation| invitation["id"] == here.field("invitationId")));
    }
}
