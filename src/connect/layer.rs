//! The layer that lets a tonic server answer Connect.

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
use crate::{build_error::BuildError, descriptors::Descriptors};

/// Lets a tonic server answer Connect: unary calls in binary and JSON, and GET for procedures without side effects.
///
/// Goes in front of everything that is to see gRPC: of tonic-web, of authentication, of the idempotency layer. The server has
/// to accept HTTP/1.1, which browsers and curl speak.
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
/// # tower_layer::Layer::layer(&connect, tonic::service::Routes::default());
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
///     .max_timeout(Duration::from_secs(30))
///     .compress_from(usize::MAX);
/// # tower_layer::Layer::layer(&connect, tonic::service::Routes::default());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ConnectLayer {
    pool: DescriptorPool,
    settings: Settings,
}

impl ConnectLayer {
    /// For the services in these descriptors: an encoded `FileDescriptorSet` or a
    /// [`DescriptorPool`](prost_reflect::DescriptorPool). Types that are in an `Any` have to be among them.
    ///
    /// # Errors
    ///
    /// [`BuildError::Descriptors`] if they cannot be read.
    pub fn new(descriptors: impl Into<Descriptors>) -> Result<Self, BuildError> {
        Ok(Self { pool: descriptors.into().pool()?, settings: Settings::default() })
    }

    /// Responses of at least so many bytes are compressed for callers that accept it, in an encoding whose feature is enabled.
    /// Defaults to 1 KiB; `usize::MAX` for never.
    #[must_use]
    pub fn compress_from(mut self, bytes: usize) -> Self {
        self.settings.compress_from = bytes;
        self
    }

    /// Whether fields that a message's type does not have are left out of JSON requests, as connect-go does. Defaults to
    /// `false`: they are refused with `invalid_argument`. Left out, they are not in the request hash either, so that two
    /// requests that differ in them alone are the same.
    #[must_use]
    pub fn ignore_unknown_fields(mut self, ignore: bool) -> Self {
        self.settings.ignore_unknown_fields = ignore;
        self
    }

    /// The largest request body, and the largest message in it, in bytes; above it the call is refused with
    /// `resource_exhausted`. Defaults to 4 MiB, as tonic's own limit, which has to be raised along with this one.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_message_bytes = bytes;
        self
    }

    /// How long a call may take, whatever its `connect-timeout-ms` says; then it is answered with `deadline_exceeded`. Defaults
    /// to what the caller says. (The timeout of `tonic::transport::Server` answers in gRPC, which a Connect client does not
    /// understand.)
    #[must_use]
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.settings.max_timeout = Some(timeout);
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

/// Without the descriptors, whose own `Debug` follows messages that contain themselves until the stack is used up.
impl fmt::Debug for ConnectLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectLayer").field("settings", &self.settings).finish_non_exhaustive()
    }
}
