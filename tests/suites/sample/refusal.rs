//! Calls that the sample refuses, or whose answers it loses on purpose. The layer's and the drivers' suites have the rest.

use uuid::Uuid;

use super::subject::Sample;

const UNAUTHENTICATED: u64 = 16;

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

/// The page's switch does this, to show the retry.
#[tokio::test]
async fn loses_an_answer_whose_retry_gets_it() {
    for mode in ["reserved", "transactional"] {
        let Some(sample) = Sample::start(&["--mode", mode]).await else { return };
        let call = sample.create_project("shop").key(Uuid::new_v4());
        assert_ne!(sample.as_alice(call.clone().header("sample-lose-answer", "1")).await.code, 0, "{mode}");
        assert_eq!(sample.as_alice(call).await.succeeded().replayed(), Some("true"), "{mode}");
        assert_eq!(sample.count("tenant.projects").await, 1, "{mode}");
    }
}
