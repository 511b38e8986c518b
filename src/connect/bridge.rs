//! Forwards Connect calls to a gRPC service.

use std::{
    fmt,
    future::ready,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use connectrpc::{
    CodecFormat, ConnectError, Dispatcher, EncodedBody, MethodKind, Payload, RequestContext, Response,
    dispatcher::{MethodDescriptor as Route, RequestStream, StreamingResult, UnaryResult},
};
use protobuf_canonical::json::{Json, JsonError};
use tonic::{Code, Status, body::Body, codegen::StdError};
use tonic_types::{ErrorDetails, StatusExt as _};
use tower::{Service, ServiceExt as _};

use crate::{
    blocking::read_message,
    grpc::WrittenMessage,
    key::IdempotencyKey,
    rejection::{DOMAIN, Reason},
};

use super::{
    error::Errors,
    methods::{Method, Methods},
    request, response,
};

/// Translates unary calls into gRPC calls of a service, and the responses back.
pub(super) struct Bridge<S> {
    /// Cloned for each call. In a mutex, because services are not required to be `Sync`.
    service: Mutex<S>,
    methods: Arc<Methods>,
    json: Arc<Json>,
    /// The reader of the messages of calls without a key; `None` if `json` reads those, too.
    without_key: Option<WithoutKey>,
    errors: Arc<Errors>,
    /// The rejection of calls to streaming procedures; `None` for the default, that they cannot be translated.
    stream_rejection: Option<StreamRejection>,
}

/// Returns the status that rejects a call to the streaming procedure with this path, without the leading slash.
#[derive(Clone)]
pub(super) struct StreamRejection(pub(super) Arc<dyn Fn(&str) -> Status + Send + Sync>);

impl fmt::Debug for StreamRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamRejection(..)")
    }
}

/// Reads the messages of calls without a key to procedures that take their key only from the header. Such calls are not compared.
#[derive(Clone)]
pub(super) struct WithoutKey {
    pub(super) json: Arc<Json>,
    /// Returns whether the procedure with this path, without the leading slash, takes its key only from the header.
    pub(super) is_of_header: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl fmt::Debug for WithoutKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WithoutKey { .. }")
    }
}

impl<S> Bridge<S> {
    pub(super) fn new(
        service: S,
        methods: Arc<Methods>,
        json: Arc<Json>,
        without_key: Option<WithoutKey>,
        errors: Arc<Errors>,
        stream_rejection: Option<StreamRejection>,
    ) -> Self {
        Self { service: Mutex::new(service), methods, json, without_key, errors, stream_rejection }
    }

    /// Returns the reader of this call's message.
    fn reader(&self, path: &str, context: &RequestContext) -> Arc<Json> {
        let has_key = context.headers().contains_key(IdempotencyKey::HEADER)
            || context.extensions().get::<IdempotencyKey>().is_some();
        match &self.without_key {
            Some(without) if !has_key && (without.is_of_header)(path) => Arc::clone(&without.json),
            _ => Arc::clone(&self.json),
        }
    }

    fn not_bridged<T: Send + 'static>(
        &self,
        path: &str,
    ) -> Pin<Box<dyn Future<Output = Result<T, ConnectError>> + Send>> {
        let error = match &self.stream_rejection {
            Some(StreamRejection(reject)) => self.errors.connect(reject(path)),
            None => ConnectError::unimplemented(format!(
                "{path} is a streaming procedure; this server supports only unary procedures over Connect, so use gRPC or \
                 gRPC-Web"
            )),
        };
        Box::pin(ready(Err(error)))
    }
}

impl<S, R> Dispatcher for Bridge<S>
where
    S: Service<http::Request<Body>, Response = http::Response<R>> + Clone + Send + 'static,
    S::Error: Into<StdError>,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    fn lookup(&self, path: &str) -> Option<Route> {
        self.methods.get(path).map(|method| method.route)
    }

    fn call_unary(&self, path: &str, context: RequestContext, message: Payload, format: CodecFormat) -> UnaryResult {
        // Also called for streaming procedures.
        let unary = self.methods.get(path).filter(|method| method.route.kind == MethodKind::Unary);
        let Some(method) = unary.cloned() else { return self.not_bridged(path) };
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (json, errors) = (self.reader(path, &context), Arc::clone(&self.errors));
        Box::pin(async move { call(service, &method, context, message, format, &json, &errors).await })
    }

    fn call_server_streaming(&self, path: &str, _: RequestContext, _: Bytes, _: CodecFormat) -> StreamingResult {
        self.not_bridged(path)
    }

    fn call_client_streaming(&self, path: &str, _: RequestContext, _: RequestStream, _: CodecFormat) -> UnaryResult {
        self.not_bridged(path)
    }

    fn call_bidi_streaming(&self, path: &str, _: RequestContext, _: RequestStream, _: CodecFormat) -> StreamingResult {
        self.not_bridged(path)
    }
}

async fn call<S, R>(
    service: S,
    method: &Method,
    context: RequestContext,
    message: Payload,
    format: CodecFormat,
    json: &Arc<Json>,
    errors: &Errors,
) -> Result<Response<EncodedBody>, ConnectError>
where
    S: Service<http::Request<Body>, Response = http::Response<R>>,
    S::Error: Into<StdError>,
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<StdError>,
{
    let (message, protocol) = (message.encoded()?, context.protocol());
    let request = match format {
        CodecFormat::Json => {
            let written = read_json(json, method, message, errors).await?;
            let mut request = request::grpc(&method.descriptor, context, &written.message)?;
            request.extensions_mut().insert(written);
            request
        }
        _ => request::grpc(&method.descriptor, context, &message)?,
    };
    let response = service.oneshot(request).await.map_err(|error| errors.connect(Status::from_error(error.into())))?;
    let mut response = response::connect(response, protocol, errors).await?;
    if format == CodecFormat::Json {
        let message =
            json.encode(method.descriptor.output(), response.body.into_contiguous()).map_err(not_encodable)?;
        response.body = message.into();
    }
    Ok(response)
}

async fn read_json(
    json: &Arc<Json>,
    method: &Method,
    text: Bytes,
    errors: &Errors,
) -> Result<WrittenMessage, ConnectError> {
    let (json, input, written) = (Arc::clone(json), method.descriptor.input(), text.clone());
    let read = read_message(text.len(), move || json.decode(&input, &text)).await;
    let message = read.map_err(|interrupted| ConnectError::internal(interrupted.to_string()))?;
    let message = message.map_err(|error| errors.connect(invalid(&error)))?;
    Ok(WrittenMessage { json: written, message })
}

fn invalid(error: &JsonError) -> Status {
    let details = ErrorDetails::with_error_info(Reason::RequestMalformed.as_str(), DOMAIN, []);
    Status::with_error_details(Code::InvalidArgument, format!("malformed request: {error}"), details)
}

fn not_encodable(error: JsonError) -> ConnectError {
    ConnectError::internal(format!("the response cannot be encoded as JSON: {error}"))
}
