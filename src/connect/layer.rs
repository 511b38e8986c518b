//! The layer that adds Connect to a tonic server.

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use prost_reflect::DescriptorPool;
use tonic::{body::Body, codegen::StdError};
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Connect,
    translator::{Settings, Translator},
};
use crate::{build_error::BuildError, descriptors::Descriptors, proto};

/// Adds Connect to a tonic server: unary calls in binary and JSON, and GET for procedures without side effects.
///
/// The layer has to be in front of all layers that expect gRPC: of tonic-web, of authentication, and of the idempotency
/// layer. The server has to accept HTTP/1.1, which browsers and curl use.
///
/// Default:
///
/// ```
/// use tonic_idempotency::connect::ConnectLayer;
/// # const FILE_DESCRIPTOR_SET: &[u8] = tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
///
/// # fn main() -> Result<(), tonic_idempotency::layer::BuildError> {
/// let connect = ConnectLayer::new(FILE_DESCRIPTOR_SET)?;
/// // Server::builder().accept_http1(true).layer(connect).layer(authentication).layer(idempotency)…
/// # use tonic::body::Body;
/// # let inner = |_: http::Request<Body>| async { Ok::<_, tonic::Status>(http::Response::new(Body::empty())) };
/// # tower_layer::Layer::layer(&connect, tower::service_fn(inner));
/// # Ok(())
/// # }
/// ```
///
/// Customised:
///
/// ```
/// use std::time::Duration;
/// # use tonic_idempotency::connect::ConnectLayer;
/// # const FILE_DESCRIPTOR_SET: &[u8] = tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
///
/// # fn main() -> Result<(), tonic_idempotency::layer::BuildError> {
/// let connect = ConnectLayer::new(FILE_DESCRIPTOR_SET)?
///     .max_message_bytes(16 << 20)
///     .max_timeout(Duration::from_secs(30));
/// # use tonic::body::Body;
/// # let inner = |_: http::Request<Body>| async { Ok::<_, tonic::Status>(http::Response::new(Body::empty())) };
/// # tower_layer::Layer::layer(&connect, tower::service_fn(inner));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ConnectLayer {
    pool: DescriptorPool,
    settings: Settings,
}

impl ConnectLayer {
    /// Creates a layer for the services in these descriptors: an encoded `FileDescriptorSet` or a
    /// [`DescriptorPool`](prost_reflect::DescriptorPool). The descriptors have to include the types that messages
    /// contain in an `Any`. Those of the [`OperationService`](crate::operations) are always known.
    ///
    /// # Errors
    ///
    /// [`BuildError::Descriptors`] if the descriptors are invalid, [`BuildError::Edition`] if a file is in an edition, or has a
    /// feature, that is not supported.
    pub fn new(descriptors: impl Into<Descriptors>) -> Result<Self, BuildError> {
        Ok(Self { pool: with_operations(descriptors.into().pool()?), settings: Settings::default() })
    }

    /// Sets the minimum size of a response to compress, in bytes; 1 KiB by default. A response is compressed if the caller
    /// accepts an encoding whose feature is enabled. Only for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn compress_from(mut self, bytes: usize) -> Self {
        self.settings.compress_from = bytes;
        self
    }

    /// Sets whether unknown fields in JSON requests are ignored, as in connect-go. Ignored fields are not part of the
    /// request hash: two requests that differ only in unknown fields are the same request. Defaults to `false`: such
    /// requests are refused with `invalid_argument`.
    #[must_use]
    pub fn ignore_unknown_fields(mut self, ignore: bool) -> Self {
        self.settings.ignore_unknown_fields = ignore;
        self
    }

    /// Sets the maximum size of a request message, in bytes, both compressed and decompressed. A larger request is
    /// refused with `resource_exhausted`. Defaults to 4 MiB, like tonic's own limit, which has to be raised together
    /// with this one.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.settings.request_limits.bytes = bytes;
        self
    }

    /// Sets the maximum duration of a call, even if its `connect-timeout-ms` is longer or missing. After that the
    /// caller gets `deadline_exceeded`. Defaults to the caller's timeout. (The timeout of `tonic::transport::Server`
    /// answers in gRPC, which Connect clients cannot read.)
    #[must_use]
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.settings.max_timeout = Some(timeout);
        self
    }

    /// Sets the time within which the body of a Connect request has to arrive, counted from the arrival of its head. After that
    /// the caller gets `internal`, with a message that says so. Defaults to 30 seconds. Only for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn request_body_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_limits.time = timeout;
        self
    }
}

impl<S, R> Layer<S> for ConnectLayer
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<StdError>,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    type Service = Connect<S>;

    fn layer(&self, inner: S) -> Connect<S> {
        let translator = Translator::new(&self.pool, self.settings);
        Connect::new(inner.clone(), translator.around(inner), translator)
    }
}

/// Adds the descriptors of the [`OperationService`](crate::operations). Its calls are translated whether or not the server has it.
fn with_operations(pool: DescriptorPool) -> DescriptorPool {
    let mut with = pool.clone();
    // Files that are already there stay as they are. Those of another version of this crate may be incompatible.
    match with.decode_file_descriptor_set(proto::FILE_DESCRIPTOR_SET) {
        Ok(()) => with,
        Err(_) => pool,
    }
}

/// Omits the descriptors: their `Debug` overflows the stack on recursive message types.
impl fmt::Debug for ConnectLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectLayer").field("settings", &self.settings).finish_non_exhaustive()
    }
}
