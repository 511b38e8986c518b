//! The spans of calls.

use std::fmt;

use http::HeaderMap;
use tracing::{Level, Span, field::Empty, info_span};
use uuid::Uuid;

use super::key_hash::key_hash;

/// The target of all spans.
const TARGET: &str = "tonic_idempotency::span";

/// The length of a `traceparent` of the version 00, in bytes. Later versions may have more after a hyphen.
const TRACEPARENT: usize = 55;

/// Makes the spans of a layer's calls.
#[derive(Default)]
pub(crate) struct Spans {
    /// The secret of the hashes of keys; `None` for spans without them.
    pub(crate) secret: Option<Box<[u8]>>,
    /// Is told the `traceparent` of the first call, in the span of its replay.
    pub(crate) link: Option<Link>,
}

type Link = Box<dyn Fn(&str) + Send + Sync>;

/// Makes a span with the common fields.
macro_rules! span {
    ($name:literal, $spans:expr, $procedure:expr, $key:expr) => {
        $spans.keyed(info_span!(target: TARGET, $name, procedure = $procedure, key = Empty, outcome = Empty), $key)
    };
}

impl Spans {
    pub(crate) fn claim(&self, procedure: &str, key: &Uuid) -> Span {
        span!("idempotency.claim", self, procedure, key)
    }

    pub(crate) fn look_up(&self, procedure: &str, key: &Uuid) -> Span {
        span!("idempotency.look_up", self, procedure, key)
    }

    /// `reruns` is the number of attempts before this one.
    pub(crate) fn execute(&self, procedure: &str, key: &Uuid, reruns: u32) -> Span {
        let reruns = Some(reruns).filter(|&reruns| reruns > 0);
        let span = info_span!(target: TARGET, "idempotency.execute", procedure, key = Empty, outcome = Empty, reruns);
        self.keyed(span, key)
    }

    pub(crate) fn record(&self, procedure: &str, key: &Uuid) -> Span {
        span!("idempotency.record", self, procedure, key)
    }

    /// The span of a replay, which has no duration. `first` is the `traceparent` of the first call.
    pub(crate) fn replay(&self, procedure: &str, key: &Uuid, first: Option<&str>) {
        let name = "first_call.traceparent";
        let span = info_span!(
            target: TARGET, "idempotency.replay", procedure, key = Empty, first_call.traceparent = Empty
        );
        let span = self.keyed(span, key);
        if let (Some(first), false) = (first, span.is_disabled()) {
            span.record(name, first);
            if let Some(link) = &self.link {
                span.in_scope(|| link(first));
            }
        }
    }

    fn keyed(&self, span: Span, key: &Uuid) -> Span {
        if let (Some(secret), false) = (&self.secret, span.is_disabled()) {
            span.record("key", key_hash(secret, key));
        }
        span
    }
}

/// Sets how the step of a span ended.
pub(crate) fn ended(span: &Span, outcome: &dyn fmt::Display) {
    if !span.is_disabled() {
        span.record("outcome", tracing::field::display(outcome));
    }
}

/// Sets how the handler of the current span ended, if that is the layer's own.
pub(crate) fn executed(outcome: &dyn fmt::Display) {
    let span = Span::current();
    if span.metadata().is_some_and(|metadata| metadata.target() == TARGET) {
        ended(&span, outcome);
    }
}

/// Returns the `traceparent` of a request (W3C Trace Context); `None` if it has none, or if there are no spans that could be linked
/// with it.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<Box<str>> {
    if !tracing::span_enabled!(target: TARGET, Level::INFO) {
        return None;
    }
    let value = headers.get("traceparent")?.to_str().ok()?;
    let (known, more) = value.split_at_checked(TRACEPARENT)?;
    let is_one = known.bytes().enumerate().all(|(at, byte)| match at {
        2 | 35 | 52 => byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    });
    (is_one && (more.is_empty() || more.starts_with('-'))).then(|| known.into())
}
