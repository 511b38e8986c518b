use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use connectrpc::{ConnectRpcService, Limits, Protocol, compression::CompressionPolicy, deadline::DeadlinePolicy};
use futures_util::FutureExt as _;
use http::{HeaderMap, Method, Request, Response, header};
use prost_reflect::DescriptorPool;
use protobuf_canonical::json::Json;
use tonic::{body::Body, codegen::StdError};
use tower::Service;

use super::{bridge::Bridge, error::Errors, inner::Inner, methods::Methods};

/// Turns calls of other protocols into gRPC ones, for any service that speaks gRPC.
#[derive(Clone)]
pub(crate) struct Translator {
    methods: Arc<Methods>,
    service: ConnectRpcService<Bridge>,
}

/// What can be set of a translator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) compress_from: usize,
    pub(crate) ignore_unknown_fields: bool,
    pub(crate) max_message_bytes: usize,
    pub(crate) max_timeout: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { compress_from: 1 << 10, ignore_unknown_fields: false, max_message_bytes: 4 << 20, max_timeout: None }
    }
}

impl Translator {
    pub(crate) fn new(pool: &DescriptorPool, settings: Settings) -> Self {
        let methods = Arc::new(Methods::of(pool));
        let json = Arc::new(Json::new(settings.ignore_unknown_fields));
        let bridge = Bridge { methods: Arc::clone(&methods), json, errors: Arc::new(Errors::new(pool.clone())) };
        let limits = Limits::unlimited()
            .with_max_request_body_size(settings.max_message_bytes)
            .with_max_message_size(settings.max_message_bytes);
        let deadlines = match settings.max_timeout {
            Some(max) => DeadlinePolicy::new().with_max(max).with_default_timeout(max),
            None => DeadlinePolicy::new(),
        };
        let service = ConnectRpcService::new(bridge)
            .with_limits(limits)
            .with_compression_policy(CompressionPolicy::default().with_min_size(settings.compress_from))
            .with_deadline_policy(deadlines);
        Self { methods, service }
    }

    /// Whether the request is a Connect call, right or wrong, of a procedure that is known.
    pub(super) fn is_connect<B>(&self, request: &Request<B>) -> bool {
        *request.method() != Method::OPTIONS
            && !content_type(request.headers()).starts_with(b"application/grpc")
            && self.methods.get(request.uri().path()).is_some()
    }

    /// Whether the request is a call in one of the protocols that are known here. What of these cannot be turned into a unary gRPC
    /// call, such as a stream over Connect, is refused in its own protocol.
    pub(crate) fn translates<B>(&self, request: &Request<B>) -> bool {
        Protocol::detect(request.headers()).is_some() || *request.method() == Method::GET
    }

    /// Makes the call of a service that speaks gRPC.
    pub(crate) fn call<S, R>(
        &self,
        mut request: Request<Body>,
        service: S,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>>
    where
        S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
        S::Error: Into<StdError>,
        S::Future: Send + 'static,
        R: http_body::Body<Data = Bytes> + Send + 'static,
        R::Error: Into<StdError>,
    {
        request.extensions_mut().insert(Inner::new(service));
        let response = self.service.clone().call(request);
        Box::pin(response.map(|Ok(response)| response.map(Body::new)))
    }
}

fn content_type(headers: &HeaderMap) -> &[u8] {
    headers.get(header::CONTENT_TYPE).map_or(&[], |value| value.as_bytes())
}

impl std::fmt::Debug for Translator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Translator").field("methods", &self.methods).finish_non_exhaustive()
    }
}
