//! The settings that bound calls: message sizes, times, and numbers of calls.

use std::time::Duration;

use super::IdempotencyLayerBuilder;
use crate::{grpc::CompressionEncoding, policy::Limits};

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

    /// Sets the time within which the request message of a call has to arrive, counted from the arrival of its head. It applies
    /// to calls with a key, and to calls without one to a procedure that is transactional or has a
    /// [key field](crate::policy::ProcedureBuilder::key_field). A slower call is refused with
    /// `DEADLINE_EXCEEDED`, `IDEMPOTENCY_REQUEST_TIMEOUT`. Until its message is there, it holds neither its key nor a
    /// connection to the store, but it counts as [in flight](Limits::in_flight). Over HTTP/1 the time also bounds how
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

    /// Sets the [limits](Limits) of what the server holds for its callers: calls in flight and waiting, transactions, outcomes that wait to
    /// be recorded, and records. Defaults to [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the maximum total size of the responses in outcomes that wait to be recorded, 64 MiB. Only for tests.
    #[doc(hidden)]
    pub fn max_unrecorded_bytes(mut self, bytes: usize) -> Self {
        self.max_unrecorded_bytes = bytes;
        self
    }

    /// Sets the maximum total size of the requests of all waiting calls, 64 MiB. Only for tests.
    #[doc(hidden)]
    pub fn max_waiting_bytes(mut self, bytes: usize) -> Self {
        self.max_waiting_bytes = bytes;
        self
    }
}
