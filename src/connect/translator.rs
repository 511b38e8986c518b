//! Translates calls in other protocols into gRPC calls, and the responses back.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use connectrpc::{
    CodecFormat, ConnectRpcBody, ConnectRpcService, Limits, Protocol, compression::CompressionPolicy,
    deadline::DeadlinePolicy,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::Full;
use prost_reflect::DescriptorPool;
use protobuf_canonical::json::Json;
use tonic::{Status, body::Body, codegen::StdError};
use tower::Service;

use super::{
    bridge::{Bridge, StreamRejection, WithoutKey},
    compression,
    error::Errors,
    methods::Methods,
    timed_body::TimedBody,
};
use crate::grpc::{HEADER_LEN, RequestLimits};

/// Translates calls in other protocols into gRPC calls. [`around`](Self::around) wraps a service.
#[derive(Clone, Debug)]
pub(crate) struct Translator {
    methods: Arc<Methods>,
    json: Arc<Json>,
    without_key: Option<WithoutKey>,
    errors: Arc<Errors>,
    settings: Settings,
    stream_rejection: Option<StreamRejection>,
}

/// The settings of a translator. The sizes are in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) compress_from: usize,
    pub(crate) ignore_unknown_fields: bool,
    pub(crate) max_timeout: Option<Duration>,
    pub(crate) request_limits: RequestLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            compress_from: 1 << 10,
            ignore_unknown_fields: false,
            max_timeout: None,
            request_limits: RequestLimits::default(),
        }
    }
}

impl Translator {
    pub(crate) fn new(pool: &DescriptorPool, settings: Settings) -> Self {
        Self {
            methods: Arc::new(Methods::of(pool)),
            json: Arc::new(Json::new(settings.ignore_unknown_fields)),
            without_key: None,
            errors: Arc::new(Errors::new(pool.clone())),
            settings,
            stream_rejection: None,
        }
    }

    /// Sets the status that rejects calls to streaming procedures, by the procedure's path. By default it says that this server
    /// does not support them over Connect.
    pub(crate) fn rejecting_streams(mut self, reject: impl Fn(&str) -> Status + Send + Sync + 'static) -> Self {
        self.stream_rejection = Some(StreamRejection(Arc::new(reject)));
        self
    }

    /// Ignores unknown fields in calls without a key, as the service itself does, if `is_of_header` says that the procedure (its path
    /// without the leading slash) takes its key only from the header. Calls without a key are not compared.
    pub(crate) fn lenient_without_key(mut self, is_of_header: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.without_key = Some(WithoutKey { json: Arc::new(Json::new(true)), is_of_header: Arc::new(is_of_header) });
        self
    }

    /// Returns whether the request is a Connect call, valid or not: of a known procedure, of any other of a known service, or one that names
    /// Connect. Any other request to an unknown path may be for another service.
    pub(super) fn is_connect<B>(&self, request: &Request<B>) -> bool {
        let path = request.uri().path();
        let may_be_misspelled = || *request.method() == Method::POST && Protocol::detect(request.headers()).is_some();
        *request.method() != Method::OPTIONS
            && !content_type(request.headers()).starts_with(b"application/grpc")
            && (self.methods.get(path).is_some()
                || names_connect(request)
                || may_be_misspelled() && self.methods.has_service_of(path))
    }

    /// Returns whether the request is in a protocol that can be translated. A call that cannot become a unary gRPC
    /// call, such as a stream over Connect, is then rejected in its own protocol.
    pub(crate) fn translates<B>(&self, request: &Request<B>) -> bool {
        Protocol::detect(request.headers()).is_some() || *request.method() == Method::GET
    }

    /// Wraps a gRPC service.
    pub(crate) fn around<S, R>(&self, service: S) -> TranslatedService<S>
    where
        S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
        S::Error: Into<StdError>,
        S::Future: Send + 'static,
        R: http_body::Body<Data = Bytes> + Send + 'static,
        R::Error: Into<StdError>,
    {
        let Self { methods, json, without_key, errors, settings, stream_rejection } = self.clone();
        let limits = Limits::unlimited()
            .with_max_request_body_size(settings.request_limits.bytes.saturating_add(HEADER_LEN))
            .with_max_message_size(settings.request_limits.bytes);
        let deadlines = match settings.max_timeout {
            Some(max) => DeadlinePolicy::new().with_max(max).with_default_timeout(max),
            None => DeadlinePolicy::new(),
        };
        let service =
            ConnectRpcService::new(Bridge::new(service, methods, json, without_key, errors, stream_rejection))
                .with_limits(limits)
                .with_compression(compression::registry())
                .with_compression_policy(CompressionPolicy::default().with_min_size(settings.compress_from))
                .with_deadline_policy(deadlines);
        TranslatedService { service, request_body_timeout: settings.request_limits.time }
    }
}

/// A gRPC service that also answers calls in other protocols.
pub(crate) struct TranslatedService<S> {
    service: ConnectRpcService<Bridge<S>>,
    request_body_timeout: Duration,
}

impl<S> TranslatedService<S> {
    /// Translates the call, waits until the gRPC service is ready, and calls it.
    pub(crate) fn call<R>(&self, request: Request<Body>) -> BoxFuture<'static, Response<Body>>
    where
        S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
        S::Error: Into<StdError>,
        S::Future: Send + 'static,
        R: http_body::Body<Data = Bytes> + Send + 'static,
        R::Error: Into<StdError>,
    {
        let is_stream = Protocol::detect(request.headers())
            .is_some_and(|detected| detected.protocol == Protocol::Connect && detected.is_streaming);
        let request = match is_stream {
            true => without_stream(request),
            false => request.map(|body| Body::new(TimedBody::new(body, self.request_body_timeout))),
        };
        let response = self.service.clone().call(request);
        Box::pin(response.map(|Ok(response)| response.map(of_known_length)))
    }
}

/// Written by hand, as a derive would require `S: Clone`.
impl<S> Clone for TranslatedService<S> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), request_body_timeout: self.request_body_timeout }
    }
}

/// Returns a body that says its length, if it has one: without a `content-length`, clients take the first part of a message of Connect for all
/// of it.
fn of_known_length(body: ConnectRpcBody) -> Body {
    match body {
        ConnectRpcBody::Full(body) => Body::new(body),
        body => Body::new(body),
    }
}

/// Replaces a stream, which may never end, by one empty message: it is rejected whatever its messages are.
fn without_stream(request: Request<Body>) -> Request<Body> {
    let (mut head, _stream) = request.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    Request::from_parts(head, Body::new(Full::new(Bytes::from_static(&[0; HEADER_LEN]))))
}

/// Returns whether the request names Connect: in its header or query, or by a content type that only Connect has.
fn names_connect<B>(request: &Request<B>) -> bool {
    let in_query = |query: &str| query.split('&').any(|parameter| parameter == "connect=v1");
    let by_type = Protocol::detect(request.headers()).is_some_and(|detected| {
        detected.protocol == Protocol::Connect && (detected.is_streaming || detected.codec_format != CodecFormat::Json)
    });
    by_type
        || request.headers().contains_key("connect-protocol-version")
        || (*request.method() == Method::GET && request.uri().query().is_some_and(in_query))
}

fn content_type(headers: &HeaderMap) -> &[u8] {
    headers.get(header::CONTENT_TYPE).map_or(&[], |value| value.as_bytes())
}
