//! What a call may take: sizes of messages, times, and numbers of calls.

use std::time::Duration;

use super::IdempotencyLayerBuilder;
use crate::grpc::CompressionEncoding;

impl IdempotencyLayerBuilder {
    /// Accepts requests with a key that are compressed with this encoding. Call it for each encoding that the service
    /// accepts, as on the service itself. Any other is refused with `UNIMPLEMENTED`, as tonic does it, and never
    /// decompressed. Defaults to none, like tonic.
    ///
    /// The service behind the layer gets the request uncompressed. A message of more than 1 MiB may be at most 128
    /// times as large as it is compressed; otherwise it is refused with `RESOURCE_EXHAUSTED`. Calls over Connect and
    /// gRPC-Web that the layer translates are decompressed before, and do not depend on this setting.
    ///
    /// ```
    /// # #[cfg(feature = "gzip")] {
    /// # use tonic_idempotency::{IdempotencyLayer, proto::FILE_DESCRIPTOR_SET};
    /// use tonic_idempotency::layer::CompressionEncoding;
    ///
    /// let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).accept_compressed(CompressionEncoding::Gzip);
    /// # drop(builder);
    /// # }
    /// ```
    pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
        self.accepted.add(encoding);
        self
    }

    /// Sets the maximum size of the request message of a call with a key, in bytes, both compressed and decompressed. A
    /// larger request is refused with `RESOURCE_EXHAUSTED`. Defaults to 4 MiB, like tonic's own limit, which has to be
    /// raised together with this one. (A message compressed with zstd may require a window of at most 8 MiB, regardless
    /// of this limit.)
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.request_limits.bytes = bytes;
        self
    }

    /// Sets the time in which the request message of a call has to arrive, from the moment at which its head has: of a call
    /// with a key, and of a call without one to a procedure that is transactional or has a
    /// [key field](crate::policy::ProcedureBuilder::key_field). A slower call is refused with
    /// `DEADLINE_EXCEEDED`, `IDEMPOTENCY_REQUEST_TIMEOUT`. Until its message is there, it holds neither its key nor a
    /// connection to the store, but it counts as [in flight](Self::max_in_flight). Over HTTP/1 the time also bounds how
    /// long the body of a refused call is read. Defaults to 30 seconds.
    pub fn request_body_timeout(mut self, timeout: Duration) -> Self {
        self.request_limits.time = timeout;
        self
    }

    /// Sets the maximum size of a stored response, in bytes of its message and metadata together. If the response is
    /// larger, the first caller gets it, and a retry gets `IDEMPOTENCY_RESPONSE_NOT_STORED`. Defaults to 1 MiB.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Sets the maximum number of calls in flight, of all users together, at least 1. Defaults to 1,024.
    ///
    /// In flight is a call with a key, or without one to a transactional procedure, from the arrival of its head until its
    /// outcome is settled. If its procedure has a [key field](crate::policy::ProcedureBuilder::key_field), a call counts until its
    /// message has been read in any case. It is so even if its client has disconnected: the call goes on, and no limit of the server or of
    /// HTTP/2 counts it any more. A [waiting](Self::max_waiting) call is not in flight, and neither is an outcome that is
    /// still recorded after the caller has its response. Further calls are refused with `UNAVAILABLE`,
    /// `IDEMPOTENCY_OVERLOADED`, retries and replays among them, before their messages are read.
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.limits.in_flight = calls.max(1);
        self
    }

    /// Sets the maximum number of calls [in flight](Self::max_in_flight) of one user, at least 1. A user counts in each scope
    /// as a user of its own. Calls without a user count as those of one user. Further calls are refused with `RESOURCE_EXHAUSTED`, `IDEMPOTENCY_OVERLOADED`. Defaults to 128.
    pub fn max_in_flight_per_user(mut self, calls: usize) -> Self {
        self.limits.in_flight_per_user = calls.max(1);
        self
    }

    /// Sets the maximum number of outcomes that wait to be recorded because the store did not take them at once. While as
    /// many wait (at least one), no more keys are claimed: reserved calls are refused with `UNAVAILABLE`, `IDEMPOTENCY_OVERLOADED`. Of the
    /// outcomes of calls whose claim was not answered, which may not hold their keys, half as many wait; further ones are
    /// given up, with an error in the log. Defaults to 10,000.
    pub fn max_unrecorded(mut self, outcomes: usize) -> Self {
        self.max_unrecorded = outcomes;
        self
    }

    /// Sets the maximum size of the responses in the outcomes that wait to be recorded, in bytes. A response beyond it is
    /// not stored: a retry gets `IDEMPOTENCY_RESPONSE_NOT_STORED`, and its handler does not run again. Defaults to 64 MiB.
    pub fn max_unrecorded_bytes(mut self, bytes: usize) -> Self {
        self.max_unrecorded_bytes = bytes;
        self
    }

    /// Sets the maximum number of calls that wait for a running call with their key, over all procedures with
    /// [`InProgressPolicy::Wait`](crate::policy::InProgressPolicy::Wait) and all users; 0 for none. Further calls are
    /// refused with `UNAVAILABLE`, `IDEMPOTENCY_OVERLOADED`. A waiting call holds its request in memory, but no connection.
    /// Defaults to 4,096.
    pub fn max_waiting(mut self, calls: usize) -> Self {
        self.limits.waiting = calls;
        self
    }

    /// Sets the maximum number of [waiting](Self::max_waiting) calls of one user; 0 for none. Further calls are refused
    /// with `RESOURCE_EXHAUSTED`, `IDEMPOTENCY_OVERLOADED`. Defaults to 256.
    pub fn max_waiting_per_user(mut self, calls: usize) -> Self {
        self.limits.waiting_per_user = calls;
        self
    }

    /// Sets the maximum size of the request messages of all [waiting](Self::max_waiting) calls together, in bytes,
    /// decompressed. A call whose message would exceed it is refused with `UNAVAILABLE`, `IDEMPOTENCY_OVERLOADED`. Defaults
    /// to 64 MiB.
    pub fn max_waiting_bytes(mut self, bytes: usize) -> Self {
        self.limits.waiting_bytes = bytes;
        self
    }
}
