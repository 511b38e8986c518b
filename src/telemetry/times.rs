//! Measures how long the steps of calls take.

use std::time::Instant;

use metrics::{Key, Label, with_recorder};

use super::METADATA;

/// The histograms of one procedure. Their keys are built once, like those of its counters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Times {
    claim: Key,
    handler: Key,
    record: Key,
}

/// A step of a call whose time is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimedStep {
    Claim,
    Handler,
    Record,
}

impl Times {
    pub(super) fn of(path: &str) -> Self {
        let key = |name| Key::from_parts(name, vec![Label::new("procedure", path.to_owned())]);
        Self {
            claim: key("idempotency_claim_seconds"),
            handler: key("idempotency_handler_seconds"),
            record: key("idempotency_record_seconds"),
        }
    }

    pub(super) fn took(&self, step: TimedStep, since: Instant) {
        let key = match step {
            TimedStep::Claim => &self.claim,
            TimedStep::Handler => &self.handler,
            TimedStep::Record => &self.record,
        };
        let seconds = since.elapsed().as_secs_f64();
        with_recorder(|recorder| recorder.register_histogram(key, &METADATA)).record(seconds);
    }
}
