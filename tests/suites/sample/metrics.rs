//! The metrics that the sample serves to Prometheus.

use uuid::Uuid;

use super::{eventually::eventually, subject::Sample};

const PAGE: &str = include_str!("../../../docs/operations.md");

/// The labels of the procedure that the test calls.
const CREATE_PROJECT: &str = r#"procedure="/organization.v1.ProjectService/CreateProject""#;

/// The bounds of the buckets that the page names.
fn buckets() -> Vec<f64> {
    let list = PAGE.split("set_buckets(&[").nth(1).and_then(|rest| rest.split(']').next()).expect("the buckets");
    list.split(", ").map(|bound| bound.parse().expect("a number")).collect()
}

/// The value of a series; 0 if it is not there.
fn value(metrics: &str, series: &str) -> u64 {
    let found = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.map_or(0, |value| value.parse().expect("a whole number"))
}

#[tokio::test]
async fn counts_a_first_call_and_its_replay_and_sorts_their_times_into_the_buckets_of_the_page() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let call = sample.create_project("shop").key(Uuid::new_v4());
    sample.as_alice(call.clone()).await.succeeded();
    sample.as_alice(call).await.succeeded();

    let metrics = sample.metrics().await;
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.contains("content-type: text/plain; version=0.0.4"));
    for outcome in ["first", "replayed"] {
        let labels = format!(r#"{CREATE_PROJECT},outcome="{outcome}""#);
        assert_eq!(value(&metrics, &format!("idempotency_calls_total{{{labels}}}")), 1, "{outcome}: {metrics}");
    }
    for histogram in ["idempotency_claim_seconds", "idempotency_handler_seconds"] {
        let prefix = format!("{histogram}_bucket{{{CREATE_PROJECT},le=\"");
        let bounds = metrics.lines().filter_map(|line| line.strip_prefix(&prefix)?.split('"').next());
        let bounds: Vec<f64> =
            bounds.filter(|bound| *bound != "+Inf").map(|bound| bound.parse().expect("a number")).collect();
        assert_eq!(bounds, buckets(), "{histogram}: {metrics}");
    }
    let handlers = format!("idempotency_handler_seconds_bucket{{{CREATE_PROJECT},le=\"+Inf\"}}");
    assert_eq!(value(&metrics, &handlers), 1, "the handler ran once: {metrics}");
}

#[tokio::test]
async fn prints_the_command_that_asks_for_them() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let command = format!("\ncurl http://{}/metrics\n", sample.ready.address);
    eventually("the command is printed", async || sample.process.stdout().contains(&command).then_some(())).await;
}
