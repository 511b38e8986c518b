//! Many calls with one key at the same time.

use tokio::task::JoinSet;
use uuid::Uuid;

use super::{call::Reply, subject::Sample};

const ABORTED: u64 = 10;

#[tokio::test]
async fn one_of_fifty_concurrent_calls_creates() {
    let Some(sample) = Sample::start(&["--handler-delay", "3s"]).await else { return };
    let key = Uuid::new_v4();
    let bearer = format!("Bearer {}", sample.ready.tokens.alice);
    let call = sample.create_project("shop").key(key).header("authorization", &bearer);

    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let mut command = sample.grpcurl.command(&call.arguments(), sample.ready.address, &call.procedure);
        calls.spawn(async move { Reply::read(&command.output().await.expect("grpcurl runs")) });
    }
    let (succeeded, refused): (Vec<_>, Vec<_>) = calls.join_all().await.into_iter().partition(|reply| reply.code == 0);

    let first: Vec<_> = succeeded.iter().filter(|reply| reply.replayed().is_none()).collect();
    let [first] = first[..] else { panic!("one first response, not {first:?}") };
    assert_eq!(first.status(), Some("processing"));
    for replay in &succeeded {
        assert_eq!(replay.body, first.body);
    }
    assert!(!refused.is_empty(), "no call arrived while the first one ran");
    for reply in &refused {
        assert_eq!(reply.code, ABORTED, "{reply:?}");
        assert_eq!(reply.reason(), "IDEMPOTENCY_IN_PROGRESS");
        assert!(reply.detail("RetryInfo")["retryDelay"].is_string(), "{reply:?}");
    }

    assert_eq!(sample.count("tenant.projects").await, 1);
    let replay = sample.as_alice(sample.create_project("shop").key(key)).await.succeeded();
    assert_eq!(replay.body, first.body);
    assert_eq!(replay.replayed(), Some("true"));
}
