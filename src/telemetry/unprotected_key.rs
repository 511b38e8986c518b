//! The log line and counters of keys on procedures that are not opted in.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use metrics::{Key, Label, counter};

use super::count;

/// The log line and the counters of the keys on a procedure that is not opted in.
#[derive(Debug)]
pub(crate) struct UnprotectedKeyTelemetry {
    label: Arc<str>,
    counted: Key,
    is_logged: AtomicBool,
}

impl UnprotectedKeyTelemetry {
    /// Creates the telemetry of a procedure, or of all procedures with this label.
    pub(crate) fn new(label: &str) -> Self {
        let counted =
            Key::from_parts("idempotency_unprotected_keys_total", vec![Label::new("procedure", label.to_owned())]);
        Self { label: label.into(), counted, is_logged: AtomicBool::new(false) }
    }

    /// Counts a key that protects nothing. Only the first one is logged, with what to do.
    pub(crate) fn passed_through(&self, path: &str, remedy: &'static str) {
        count(&self.counted);
        if self.is_first() {
            let what = "a call with an idempotency key runs unprotected, because its procedure is not opted in: a retry \
                        runs it again; this is logged once";
            tracing::warn!(procedure = path, remedy, "{what}");
        }
    }

    /// Counts a call that is rejected because of its key. Only the first one is logged, with what to do.
    pub(crate) fn rejected(&self, path: &str, remedy: &'static str, reason: &'static str) {
        count(&self.counted);
        let label = self.label.to_string();
        counter!("idempotency_rejected_total", "procedure" => label, "reason" => reason).increment(1);
        if self.is_first() {
            let what =
                "refused a call with an idempotency key, because its procedure is not opted in; this is logged once";
            tracing::info!(procedure = path, remedy, "{what}");
        }
    }

    fn is_first(&self) -> bool {
        !self.is_logged.swap(true, Ordering::Relaxed)
    }
}
