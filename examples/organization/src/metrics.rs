//! The metrics of the idempotency layer at `/metrics`, for Prometheus.

use std::time::Duration;

use axum::{Router, http::header, routing::get};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use tokio::time;

use crate::error::Error;

/// The buckets of each histogram, in seconds. Without them, the quantiles of the alert rules find nothing.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0];

/// The interval at which the recorded durations are sorted into the buckets, so that they take no memory if nothing asks for them.
const UPKEEP: Duration = Duration::from_secs(5);

/// Becomes the recorder of this process, and returns the site that serves it. A program that has a recorder already keeps it, and
/// the site is empty.
///
/// Every host may ask, unlike for the page: Prometheus calls servers by any name, and neither users nor keys are in the metrics.
pub(crate) fn site() -> Result<Router, Error> {
    let metrics = match PrometheusBuilder::new().set_buckets(&BUCKETS)?.install_recorder() {
        Ok(metrics) => metrics,
        Err(BuildError::FailedToSetGlobalRecorder(_)) => return Ok(Router::new()),
        Err(error) => return Err(error.into()),
    };
    tokio::spawn(maintain(metrics.clone()));
    let answer = async move || ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.render());
    Ok(Router::new().route("/metrics", get(answer)))
}

async fn maintain(metrics: PrometheusHandle) {
    let mut interval = time::interval(UPKEEP);
    loop {
        interval.tick().await;
        metrics.run_upkeep();
    }
}
