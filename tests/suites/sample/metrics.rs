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

/// By the names of OpenTelemetry.
#[tokio::test]
async fn times_calls_by_their_methods_and_codes() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let key = Uuid::new_v4();
    for (name, code) in [("shop", 0), ("shop", 0), ("another shop", 3)] {
        assert_eq!(sample.as_alice(sample.create_project(name).key(key)).await.code, code);
    }
    let count = async |method: &str, code: &str| {
        let labels = format!(r#"rpc_system_name="grpc",rpc_method="{method}",rpc_response_status_code="{code}""#);
        value(&sample.metrics().await, &format!("rpc_server_call_duration_count{{{labels}}}"))
    };
    let create = "organization.v1.ProjectService/CreateProject";
    eventually("all are timed", async || (count(create, "OK").await == 2).then_some(())).await;
    eventually("the refusal is timed", async || (count(create, "INVALID_ARGUMENT").await == 1).then_some(())).await;
}

#[tokio::test]
async fn prints_the_command_that_asks_for_them() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let command = format!("\ncurl http://{}/metrics\n", sample.ready.address);
    eventually("the command is printed", async || sample.process.stdout().contains(&command).then_some(())).await;
}
