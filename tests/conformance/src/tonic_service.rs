//! The service for tonic.

use futures_util::{StreamExt as _, stream::BoxStream};
use prost::Message as _;
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap};
use tonic_idempotency_wire::grpc_timeout;
use tonic_types::pb;

use crate::{
    call::{Call, any},
    proto::{
        BidiStreamRequest, BidiStreamResponse, ClientStreamRequest, ClientStreamResponse, ConformancePayload,
        IdempotentUnaryRequest, IdempotentUnaryResponse, ServerStreamRequest, ServerStreamResponse, UnaryRequest,
        UnaryResponse, UnimplementedRequest, UnimplementedResponse, conformance_service_server::ConformanceService,
    },
    service::{Answer, Failure, Streamed, bidi_stream, server_stream, unary, unimplemented},
    trailers::Trailers,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Service;

#[tonic::async_trait]
impl ConformanceService for Service {
    async fn unary(&self, request: Request<UnaryRequest>) -> Result<Response<UnaryResponse>, Status> {
        let (call, request) = split(request);
        let requests = vec![any("UnaryRequest", &request)];
        respond(unary(&call, request.response_definition, requests).await, |payload| UnaryResponse { payload })
    }

    async fn idempotent_unary(
        &self,
        request: Request<IdempotentUnaryRequest>,
    ) -> Result<Response<IdempotentUnaryResponse>, Status> {
        let (call, request) = split(request);
        let requests = vec![any("IdempotentUnaryRequest", &request)];
        let answer = unary(&call, request.response_definition, requests).await;
        respond(answer, |payload| IdempotentUnaryResponse { payload })
    }

    async fn unimplemented(
        &self,
        request: Request<UnimplementedRequest>,
    ) -> Result<Response<UnimplementedResponse>, Status> {
        Err(unimplemented(&split(request).0).into())
    }

    async fn client_stream(
        &self,
        request: Request<Streaming<ClientStreamRequest>>,
    ) -> Result<Response<ClientStreamResponse>, Status> {
        let (call, mut stream) = split(request);
        let (mut requests, mut definition) = (Vec::new(), None);
        while let Some(request) = stream.message().await? {
            requests.push(any("ClientStreamRequest", &request));
            if requests.len() == 1 {
                definition = request.response_definition;
            }
        }
        respond(unary(&call, definition, requests).await, |payload| ClientStreamResponse { payload })
    }

    type ServerStreamStream = BoxStream<'static, Result<ServerStreamResponse, Status>>;

    async fn server_stream(
        &self,
        request: Request<ServerStreamRequest>,
    ) -> Result<Response<Self::ServerStreamStream>, Status> {
        let (call, request) = split(request);
        let echoed = any("ServerStreamRequest", &request);
        let streamed = server_stream(call, request.response_definition, echoed);
        Ok(respond_with_all(streamed, |payload| ServerStreamResponse { payload: Some(payload) }))
    }

    type BidiStreamStream = BoxStream<'static, Result<BidiStreamResponse, Status>>;

    async fn bidi_stream(
        &self,
        request: Request<Streaming<BidiStreamRequest>>,
    ) -> Result<Response<Self::BidiStreamStream>, Status> {
        let (call, requests) = split(request);
        let streamed = bidi_stream(call, requests).await?;
        Ok(respond_with_all(streamed, |payload| BidiStreamResponse { payload: Some(payload) }))
    }
}

fn split<T>(request: Request<T>) -> (Call, T) {
    let (metadata, extensions, message) = request.into_parts();
    let headers = metadata.into_headers();
    // tonic enforces it, and does not show it to handlers.
    let timeout = grpc_timeout(&headers);
    (Call::new(&headers, &extensions, timeout), message)
}

/// An error of tonic has one set of metadata.
fn respond<T>(answer: Answer, response: impl FnOnce(Option<ConformancePayload>) -> T) -> Result<Response<T>, Status> {
    let Answer { mut headers, trailers, outcome } = answer;
    match outcome {
        Ok(payload) => {
            let mut response = Response::new(response(Some(payload)));
            *response.metadata_mut() = MetadataMap::from_headers(headers);
            response.extensions_mut().insert(Trailers(trailers));
            Ok(response)
        }
        Err(failure) => {
            headers.extend(trailers);
            let mut status = Status::from(failure);
            *status.metadata_mut() = MetadataMap::from_headers(headers);
            Err(status)
        }
    }
}

fn respond_with_all<T: 'static>(
    streamed: Streamed<Status>,
    response: impl Fn(ConformancePayload) -> T + Send + 'static,
) -> Response<BoxStream<'static, Result<T, Status>>> {
    let Streamed { headers, trailers, responses } = streamed;
    let mut all = Response::new(responses.map(move |payload| payload.map(&response)).boxed());
    *all.metadata_mut() = MetadataMap::from_headers(headers);
    all.extensions_mut().insert(Trailers(trailers));
    all
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        let Failure { code, message, details } = failure;
        let details = pb::Status { code: code.into(), message: message.clone(), details };
        Self::with_details(code, message, details.encode_to_vec().into())
    }
}
