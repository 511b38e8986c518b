//! The service for `connectrpc`. Its messages are converted from and to those of the handlers.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use connectrpc::{
    ConnectError, ErrorCode, ErrorDetail, InboundStream, RequestContext, Response, ServiceRequest, ServiceResult,
    ServiceStream,
};
use futures_util::StreamExt as _;

use crate::{
    call::{Call, any},
    proto::{self, native},
    service::{Answer, Failure, Streamed, bidi_stream, server_stream, unary, unimplemented},
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Service;

#[allow(refining_impl_trait)]
impl native::ConformanceService for Service {
    async fn unary(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, native::UnaryRequest>,
    ) -> ServiceResult<native::UnaryResponse> {
        let request: proto::UnaryRequest = from_native(request.bytes())?;
        let requests = vec![any("UnaryRequest", &request)];
        let answer = unary(&call(&context), request.response_definition, requests).await;
        respond(answer, |payload| proto::UnaryResponse { payload: Some(payload) })
    }

    async fn idempotent_unary(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, native::IdempotentUnaryRequest>,
    ) -> ServiceResult<native::IdempotentUnaryResponse> {
        let request: proto::IdempotentUnaryRequest = from_native(request.bytes())?;
        let requests = vec![any("IdempotentUnaryRequest", &request)];
        let answer = unary(&call(&context), request.response_definition, requests).await;
        respond(answer, |payload| proto::IdempotentUnaryResponse { payload: Some(payload) })
    }

    async fn unimplemented(
        &self,
        context: RequestContext,
        _: ServiceRequest<'_, native::UnimplementedRequest>,
    ) -> ServiceResult<native::UnimplementedResponse> {
        Err(unimplemented(&call(&context)).into())
    }

    async fn client_stream(
        &self,
        context: RequestContext,
        mut stream: InboundStream<native::ClientStreamRequest>,
    ) -> ServiceResult<native::ClientStreamResponse> {
        let (mut requests, mut definition) = (Vec::new(), None);
        while let Some(request) = stream.next().await.transpose()? {
            let request: proto::ClientStreamRequest = from_native(request.bytes())?;
            requests.push(any("ClientStreamRequest", &request));
            if requests.len() == 1 {
                definition = request.response_definition;
            }
        }
        let answer = unary(&call(&context), definition, requests).await;
        respond(answer, |payload| proto::ClientStreamResponse { payload: Some(payload) })
    }

    async fn server_stream(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, native::ServerStreamRequest>,
    ) -> ServiceResult<ServiceStream<native::ServerStreamResponse>> {
        let request: proto::ServerStreamRequest = from_native(request.bytes())?;
        let echoed = any("ServerStreamRequest", &request);
        let streamed = server_stream(call(&context), request.response_definition, echoed);
        Ok(respond_with_all(streamed, |payload| proto::ServerStreamResponse { payload: Some(payload) }))
    }

    async fn bidi_stream(
        &self,
        context: RequestContext,
        requests: InboundStream<native::BidiStreamRequest>,
    ) -> ServiceResult<ServiceStream<native::BidiStreamResponse>> {
        let requests = requests.map(|request| from_native(request?.bytes()));
        let streamed = bidi_stream(call(&context), requests).await?;
        Ok(respond_with_all(streamed, |payload| proto::BidiStreamResponse { payload: Some(payload) }))
    }
}

fn call(context: &RequestContext) -> Call {
    Call::new(context.headers(), context.extensions(), context.time_remaining())
}

fn from_native<M: prost::Message + Default>(message: &[u8]) -> Result<M, ConnectError> {
    M::decode(message).map_err(|error| ConnectError::invalid_argument(error.to_string()))
}

fn to_native<M: buffa::Message>(message: &impl prost::Message) -> Result<M, ConnectError> {
    M::decode_from_slice(&message.encode_to_vec()).map_err(|error| ConnectError::internal(error.to_string()))
}

fn respond<P: prost::Message, M: buffa::Message>(
    answer: Answer,
    response: impl FnOnce(proto::ConformancePayload) -> P,
) -> ServiceResult<M> {
    let Answer { headers, trailers, outcome } = answer;
    match outcome {
        Ok(payload) => {
            let mut response = Response::new(to_native(&response(payload))?);
            (response.headers, response.trailers) = (headers, trailers);
            Ok(response)
        }
        Err(failure) => Err(ConnectError::from(failure).with_headers(headers).with_trailers(trailers)),
    }
}

fn respond_with_all<P: prost::Message, M: buffa::Message + Send + 'static>(
    streamed: Streamed<ConnectError>,
    response: impl Fn(proto::ConformancePayload) -> P + Send + Sync + 'static,
) -> Response<ServiceStream<M>> {
    let Streamed { headers, trailers, responses } = streamed;
    let mut all = Response::stream(responses.map(move |payload| to_native(&response(payload?))));
    (all.headers, all.trailers) = (headers, trailers);
    all
}

impl From<Failure> for ConnectError {
    fn from(failure: Failure) -> Self {
        let code = ErrorCode::from_grpc_code(i32::from(failure.code).unsigned_abs()).unwrap_or(ErrorCode::Unknown);
        failure.details.into_iter().fold(Self::new(code, failure.message), |error, detail| {
            error.with_detail(ErrorDetail {
                type_url: detail.type_url.rsplit('/').next().unwrap_or_default().to_owned(),
                value: Some(STANDARD_NO_PAD.encode(detail.value)),
                debug: None,
            })
        })
    }
}
