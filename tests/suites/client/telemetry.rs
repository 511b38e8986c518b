//! Telemetry of a client: metrics, and one log line for each operation that needed several attempts.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tonic::metadata::MetadataMap;
use tonic_idempotency_tests::Lines;
use tracing::level_filters::LevelFilter;

use super::foreign::{Foreign, order};
use super::prelude::*;

/// The counters and gauges, by their names and outcomes.
fn values(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let values = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
        let (_, key) = key.into_parts();
        let outcome = key.labels().find(|label| label.key() == "outcome").map(|label| format!(" {}", label.value()));
        let value = match value {
            DebugValue::Counter(value) => value as f64,
            DebugValue::Gauge(value) => *value,
            DebugValue::Histogram(_) => panic!("there is none"),
        };
        (format!("{}{}", key.name(), outcome.unwrap_or_default()), value)
    });
    values.filter(|(_, value)| *value != 0.0).collect()
}

async fn calls(snapshotter: &Snapshotter) {
    let server = Foreign::default();
    let journal = Journal::builder().in_memory().expect("a journal");
    let with = journal.clone();
    let mut client = server.client(|layer| layer.journal(with).max_attempts(2)).await;
    let (lines, _guard) = Lines::collect(LevelFilter::INFO);
    client.create_order(order("shop")).await.expect("an order");
    assert_eq!(lines.take(), "");
    server.fails([Status::unavailable("away")]);
    client.create_order(order("shop")).await.expect("an order");
    let line = lines.take();
    assert!(
        line.contains(" INFO ") && line.contains("an operation needed several attempts") && line.contains("attempts=2"),
        "{line}"
    );
    server.fails([Status::not_found("")]);
    client.create_order(order("shop")).await.expect_err("an error");
    assert_eq!(lines.take(), "");
    server.fails([Status::unavailable("away"), Status::unavailable("away")]);
    client.create_order(order("shop")).await.expect_err("it is not known");
    let line = lines.take();
    assert!(
        line.contains(" WARN ") && line.contains("not known") && line.contains("/shop.v1.Shop/CreateOrder"),
        "{line}"
    );
    let mut counted = values(snapshotter);
    assert!(counted.remove("idempotency_client_journal_oldest_seconds").is_some_and(|age| age < 600.0), "{counted:?}");
    assert_eq!(
        counted.into_iter().collect::<Vec<_>>(),
        [
            ("idempotency_client_attempts_total".to_owned(), 6.0),
            ("idempotency_client_journal_entries".to_owned(), 1.0),
            ("idempotency_client_operations_total answered".to_owned(), 2.0),
            ("idempotency_client_operations_total failed".to_owned(), 1.0),
            ("idempotency_client_operations_total unresolved".to_owned(), 1.0),
        ]
    );
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).build().expect("the layer");
    let service = layer.layer(server.channel().await);
    let mut kept = MetadataMap::new();
    kept.insert("idempotency-outcome", "kept".parse().expect("metadata"));
    server.fails([Status::with_metadata(tonic::Code::NotFound, "", kept)]);
    journal.resume(service).await;
    let counted = values(snapshotter);
    assert_eq!(counted.get("idempotency_client_resumed_total failed"), Some(&1.0), "{counted:?}");
}

#[test]
fn counts_operations_attempts_and_entries_and_says_which_were_not_easy() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    metrics::with_local_recorder(&recorder, || runtime.block_on(calls(&snapshotter)));
}
