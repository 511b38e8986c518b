//! Spans: the hash of a key, and the link to the first call.

use super::IdempotencyLayerBuilder;

impl IdempotencyLayerBuilder {
    /// Adds a hash of the key to the [spans](crate::telemetry) of each call, in the field `key`. Only with the secret can a call be
    /// found by its key: [`telemetry::key_hash`](crate::telemetry::key_hash) computes the same hash. All servers should have the same
    /// secret. Defaults to none: spans do not identify the key.
    ///
    /// The secret needs at least 16 random bytes. If the secret can be guessed, guesses of keys can be tested, too.
    pub fn log_key_hashes_with(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.spans.secret = Some(secret.into().into());
        self
    }

    /// Sets a function that is called at a replay, in the span `idempotency.replay`. It gets the `traceparent` of the first call
    /// (W3C Trace Context), and can link the span with the trace of that call: `docs/operations.md` shows this for OpenTelemetry. The
    /// function is called only if the span is enabled. It must not panic. Defaults to none: the span has the `traceparent` in the field
    /// `first_call.traceparent`.
    pub fn link_replays(mut self, link: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.spans.link = Some(Box::new(link));
        self
    }
}
