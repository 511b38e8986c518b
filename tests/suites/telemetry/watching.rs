//! The metrics of the service that reports the outcomes of calls to their callers. They have a recorder of their own, on one thread.

use std::time::Duration;
use tonic_idempotency::policy::{Limit, Limits};

use metrics_util::debugging::{DebugValue, Snapshotter};
use tokio::{runtime::Builder, time::sleep};
use tonic::service::{Routes, interceptor::InterceptedService};
use tonic_idempotency::{
    IdempotencyLayer,
    proto::v1::{WaitOperationRequest, operation_service_client::OperationServiceClient},
    store::{MemoryStore, Store as _},
};
use tonic_idempotency_tests::shop::{self, FILE_DESCRIPTOR_SET};
use uuid::Uuid;

use crate::{claim, recorded};

const WAIT: &str = "/idempotency.v1.OperationService/WaitOperation";

/// The change of the gauge since the last snapshot, which sets it to zero, and the refusals.
fn seen(snapshotter: &Snapshotter) -> (f64, Vec<(String, u64)>) {
    let (mut watching, mut refused) = (0.0, Vec::new());
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let label = |name| key.key().labels().find(|label| label.key() == name).map(|label| label.value().to_owned());
        match (key.key().name(), value) {
            ("idempotency_watching", DebugValue::Gauge(value)) => watching = value.into_inner(),
            ("idempotency_rejected_total", DebugValue::Counter(count)) if count > 0 => {
                assert_eq!(label("procedure").as_deref(), Some(WAIT));
                refused.push((label("reason").expect("a reason"), count));
            }
            _ => {}
        }
    }
    (watching, refused)
}

/// Waits until all tasks are idle.
async fn quiet() {
    sleep(Duration::from_millis(1)).await;
}

async fn requests_that_wait(snapshotter: &Snapshotter) {
    let store = MemoryStore::new();
    let limits = Limits { waiting: Limit::new(4096, 1), ..Limits::default() };
    let layer =
        IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store.clone()).limits(limits).build().expect("a layer");
    let (user, key) = (Uuid::new_v4(), Uuid::new_v4());
    let claim = claim(user, key);
    store.claim(&claim).await.expect("the store answers");
    let service = InterceptedService::new(layer.operations().build(), shop::authenticate);
    let client = OperationServiceClient::new(shop::serve_in_memory(Routes::new(service)).await);
    let wait = |user| {
        let (mut client, message) =
            (client.clone(), WaitOperationRequest { key: key.to_string(), ..Default::default() });
        tokio::spawn(async move { client.wait_operation(shop::with(message, user, None)).await })
    };

    let waiting = wait(Some(user));
    quiet().await;
    assert_eq!(seen(snapshotter), (1.0, Vec::new()));
    wait(Some(user)).await.expect("no panic").expect_err("beyond the limit");
    wait(None).await.expect("no panic").expect_err("nobody's");
    let (watching, mut refused) = seen(snapshotter);
    refused.sort();
    let [no_user, overloaded] = ["IDEMPOTENCY_NO_USER", "IDEMPOTENCY_OVERLOADED"].map(|it| (it.to_owned(), 1));
    assert_eq!((watching, refused), (0.0, vec![no_user, overloaded]));
    waiting.abort();
    quiet().await;
    assert_eq!(seen(snapshotter).0, -1.0);
}

#[test]
fn shows_the_requests_that_wait_and_counts_those_that_are_refused() {
    recorded(Builder::new_current_thread().start_paused(true), requests_that_wait);
}
