use std::{future::ready, pin::Pin, sync::Arc};

use bytes::Bytes;
use connectrpc::{
    CodecFormat, ConnectError, Dispatcher, EncodedBody, MethodKind, Payload, RequestContext, Response,
    dispatcher::{MethodDescriptor as Route, RequestStream, StreamingResult, UnaryResult},
};
use protobuf_canonical::json::{Json, JsonError};
use tonic::Status;
use tower::ServiceExt as _;

use super::{
    error::Errors,
    inner::Inner,
    methods::{Method, Methods},
    request, response,
};

/// Turns unary calls into gRPC ones, makes them, and turns the answers back.
#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) methods: Arc<Methods>,
    pub(super) json: Arc<Json>,
    pub(super) errors: Arc<Errors>,
}

impl Dispatcher for Bridge {
    fn lookup(&self, path: &str) -> Option<Route> {
        self.methods.get(path).map(|method| method.route)
    }

    fn call_unary(&self, path: &str, context: RequestContext, message: Payload, format: CodecFormat) -> UnaryResult {
        // Asked for even where the procedure streams.
        let unary = self.methods.get(path).filter(|method| method.route.kind == MethodKind::Unary);
        let Some(method) = unary.cloned() else { return not_bridged(path) };
        let (json, errors) = (Arc::clone(&self.json), Arc::clone(&self.errors));
        Box::pin(async move { call(&method, context, message, format, &json, &errors).await })
    }

    fn call_server_streaming(&self, path: &str, _: RequestContext, _: Bytes, _: CodecFormat) -> StreamingResult {
        not_bridged(path)
    }

    fn call_client_streaming(&self, path: &str, _: RequestContext, _: RequestStream, _: CodecFormat) -> UnaryResult {
        not_bridged(path)
    }

    fn call_bidi_streaming(&self, path: &str, _: RequestContext, _: RequestStream, _: CodecFormat) -> StreamingResult {
        not_bridged(path)
    }
}

async fn call(
    method: &Method,
    mut context: RequestContext,
    message: Payload,
    format: CodecFormat,
    json: &Json,
    errors: &Errors,
) -> Result<Response<EncodedBody>, ConnectError> {
    let inner =
        Inner::take(context.extensions_mut()).ok_or_else(|| ConnectError::internal("there is no service to call"))?;
    let message = message.encoded()?;
    let message = match format {
        CodecFormat::Json => json.decode(&method.descriptor.input(), &message).map_err(invalid)?,
        _ => message,
    };
    let request = request::grpc(&method.descriptor, context, &message)?;
    let response = inner.oneshot(request).await.map_err(|error| errors.connect(Status::from_error(error)))?;
    let mut response = response::connect(response, errors).await?;
    if format == CodecFormat::Json {
        let message = json.encode(method.descriptor.output(), response.body.into_contiguous()).map_err(unwritable)?;
        response.body = message.into();
    }
    Ok(response)
}

fn invalid(error: JsonError) -> ConnectError {
    ConnectError::invalid_argument(format!("the request is {error}"))
}

fn unwritable(error: JsonError) -> ConnectError {
    ConnectError::internal(format!("the response cannot be written as JSON: {error}"))
}

fn not_bridged<T: Send + 'static>(path: &str) -> Pin<Box<dyn Future<Output = Result<T, ConnectError>> + Send>> {
    let error = ConnectError::unimplemented(format!(
        "{path} is a streaming procedure, and Connect is for unary ones here; use gRPC or gRPC-Web"
    ));
    Box::pin(ready(Err(error)))
}
