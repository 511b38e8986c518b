//! Calls that the sample refuses, or whose answers it loses on purpose. The layer's and the drivers' suites have the rest.

use uuid::Uuid;

use super::{eventually::eventually, subject::Sample};

const DEADLINE_EXCEEDED: u64 = 4;

const ABORTED: u64 = 10;

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

/// Its user is served meanwhile, and the key is decided once the lease has ended.
#[tokio::test]
async fn ends_a_call_whose_handler_hangs() {
    let flags = ["--mode", "reserved", "--lease", "2s", "--handler-timeout", "1s", "--on-lease-ended", "rerun"];
    let Some(sample) = Sample::start(&flags).await else { return };
    let call = sample.create_project("shop").key(Uuid::new_v4());
    let hung = sample.as_alice(call.clone().header("sample-handler-delay-ms", 3_600_000)).await;
    assert_eq!(hung.code, DEADLINE_EXCEEDED);
    sample.as_alice(sample.create_project("another").key(Uuid::new_v4())).await.succeeded();
    let answered = eventually("the lease has ended", || async {
        let answer = sample.as_alice(call.clone()).await;
        assert!(answer.code == 0 || answer.code == ABORTED, "{answer:?}");
        (answer.code == 0).then_some(answer)
    });
    assert_eq!(answered.await.succeeded().replayed(), None, "it has run again");
    assert_eq!(sample.count("tenant.projects").await, 2);
}
