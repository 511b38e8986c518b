//! The report of calls that share a statement.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SetRecorderError, SharedString, Unit,
};

use super::wire::Saying;

/// The metric of the layer that has the calls of each statement.
const METRIC: &str = "idempotency_statement_calls";

/// The interval between two reports. What was counted after the last one is lost if the process is killed.
const INTERVAL: Duration = Duration::from_millis(50);

/// Records how many calls have shared a statement with others, and nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedCalls(Arc<AtomicUsize>);

impl SharedCalls {
    /// Becomes the recorder of this process, and reports to the harness what it counts.
    pub(super) fn report() -> Result<(), SetRecorderError<Self>> {
        let shared = Self::default();
        metrics::set_global_recorder(shared.clone())?;
        thread::spawn(move || {
            loop {
                thread::sleep(INTERVAL);
                match shared.0.swap(0, Ordering::Relaxed) {
                    0 => {}
                    calls => Saying::Shared(calls).say(),
                }
            }
        });
        Ok(())
    }
}

impl Recorder for SharedCalls {
    fn describe_counter(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_gauge(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_histogram(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn register_counter(&self, _key: &Key, _metadata: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        if key.name() == METRIC { Histogram::from_arc(Arc::new(self.clone())) } else { Histogram::noop() }
    }
}

impl HistogramFn for SharedCalls {
    fn record(&self, calls: f64) {
        if calls > 1.0 {
            // A number of calls: small, and not negative.
            self.0.fetch_add(calls as usize, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_calls_that_are_not_alone() {
        let shared = SharedCalls::default();
        metrics::with_local_recorder(&shared, || {
            for calls in [1.0, 3.0, 1.0, 2.0] {
                metrics::histogram!(METRIC, "kind" => "write").record(calls);
            }
            metrics::histogram!("idempotency_wait_seconds").record(9.0);
        });
        assert_eq!(shared.0.load(Ordering::Relaxed), 5);
    }
}
