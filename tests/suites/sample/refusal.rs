//! Calls that the sample refuses.

use serde_json::json;
use uuid::Uuid;

use super::{call::Call, subject::Sample};

const INVALID_ARGUMENT: u64 = 3;
const UNAUTHENTICATED: u64 = 16;

#[tokio::test]
async fn refuses_a_key_that_was_used_with_another_request() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let key = Uuid::new_v4();
    sample.as_alice(sample.create_project("shop").key(key)).await.succeeded();

    let refused = sample.as_alice(sample.create_project("another shop").key(key)).await;
    assert_eq!(refused.code, INVALID_ARGUMENT);
    assert_eq!(refused.reason(), "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(refused.detail("ErrorInfo")["metadata"]["mismatch"], "request");
    assert_eq!(sample.count("tenant.projects").await, 1);
}

#[tokio::test]
async fn refuses_a_key_that_was_used_with_another_procedure() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let key = Uuid::new_v4();
    sample.as_alice(sample.create_project("shop").key(key)).await.succeeded();

    let call = Call::new("ClusterService/CreateCluster", json!({ "name": "second", "region": "nl-1" }));
    let refused = sample.as_alice(call.key(key)).await;
    assert_eq!(refused.code, INVALID_ARGUMENT);
    assert_eq!(refused.reason(), "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(refused.detail("ErrorInfo")["metadata"]["mismatch"], "procedure");
    assert_eq!(sample.count("tenant.clusters").await, 1, "only the first cluster");
}

#[tokio::test]
async fn refuses_an_invalid_key() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let (one, other) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    let too_long = "1".repeat(1000);
    for keys in
        [vec![""], vec!["\"\""], vec!["order-17"], vec![&one[1..]], vec![&too_long], vec![&one, &other], vec![&one, ""]]
    {
        let call = keys.iter().fold(sample.create_project("shop"), |call, key| call.key(key));
        let refused = sample.as_alice(call).await;
        assert_eq!(refused.code, INVALID_ARGUMENT, "{keys:?}");
        assert_eq!(refused.reason(), "IDEMPOTENCY_KEY_INVALID", "{keys:?}");
        let violation = &refused.detail("BadRequest")["fieldViolations"][0];
        assert_eq!(violation["field"], "idempotency-key", "{keys:?}");
        assert!(violation["description"].as_str().is_some_and(|text| !text.is_empty()), "{keys:?}");
    }
    assert_eq!(sample.count("tenant.projects").await, 0);
}

#[tokio::test]
async fn does_not_refuse_a_header_that_repeats_the_same_key() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let key = Uuid::new_v4();
    sample.as_alice(sample.create_project("shop").key(key).key(key)).await.succeeded();
    assert_eq!(sample.completed(key).await, Some(true));
}

#[tokio::test]
async fn refuses_a_call_without_a_valid_token() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let call = sample.create_project("shop").key(Uuid::new_v4());
    let mut forged = sample.ready.tokens.alice.clone();
    forged.truncate(forged.len() - 8);
    for call in [call.clone(), call.header("authorization", format_args!("Bearer {forged}AAAAAAAA"))] {
        assert_eq!(sample.send(call).await.code, UNAUTHENTICATED);
    }
    assert_eq!(sample.count("tenant.idempotency_keys").await, 0);
}

#[tokio::test]
async fn does_not_refuse_health_and_reflection_without_a_token() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let list = sample.grpcurl.command(&[], sample.ready.address, "list").output().await.expect("grpcurl runs");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    for service in ["APIKeyService", "ClusterService", "InviteService", "NamespaceService", "ProjectService"] {
        assert!(list.contains(&format!("organization.v1.{service}")), "{list}");
        let arguments = ["-d".to_owned(), format!(r#"{{"service": "organization.v1.{service}"}}"#)];
        let mut check = sample.grpcurl.command(&arguments, sample.ready.address, "grpc.health.v1.Health/Check");
        let health = check.output().await.expect("grpcurl runs");
        assert!(String::from_utf8_lossy(&health.stdout).contains("SERVING"), "{health:?}");
    }
}
