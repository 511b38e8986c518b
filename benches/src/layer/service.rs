//! The service that is measured, bare and wrapped by the layer; and one that answers a client at once.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::{BodyExt as _, Full};
use tonic::{Request, Response, Status, body::Body};
use tonic_idempotency::{Caller, IdempotencyLayer, UserId, policy::Procedure, store::MemoryStore};
use tower::Service;
use tower_layer::Layer as _;
use uuid::Uuid;

use self::proto::{
    SayReply, SayRequest,
    echo_server::{Echo, EchoServer},
};
use crate::{error::Error, unary::GrpcService};

/// The generated code of `proto/benchmarks/layer/v1/echo.proto`.
#[allow(missing_debug_implementations, unreachable_pub)]
pub(super) mod proto {
    tonic::include_proto!("benchmarks.layer.v1");
}

pub(super) const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/echo.fds"));

pub(super) const SAY: &str = "/benchmarks.layer.v1.Echo/Say";

/// Answers with the number of bytes that the request asks for.
#[derive(Debug)]
struct EchoHandler;

#[tonic::async_trait]
impl Echo for EchoHandler {
    async fn say(&self, request: Request<SayRequest>) -> Result<Response<SayReply>, Status> {
        let reply_bytes = request.get_ref().reply_bytes as usize;
        Ok(Response::new(SayReply { payload: vec![7; reply_bytes].into() }))
    }
}

/// Creates the service without the layer.
pub(super) fn bare() -> impl GrpcService {
    EchoServer::new(EchoHandler)
}

/// Creates the service with the layer and a store in memory, which replays are from. Its procedure creates nothing, and all calls are
/// those of one user.
pub(super) fn wrapped() -> Result<impl GrpcService, Error> {
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
        .store(MemoryStore::new())
        .replay_cache_bytes(0)
        .procedure(Procedure::builder(SAY))
        .caller_resolver(|_: &http::HeaderMap, _: &http::Extensions| {
            Ok(Some(Caller::new(UserId::new(Uuid::from_u128(1)))))
        })
        .build()?;
    Ok(layer.layer(EchoServer::new(EchoHandler)))
}

/// A server that reads every call, and answers it with an empty message at once.
#[derive(Clone)]
pub(super) struct AtOnce;

impl Service<http::Request<Body>> for AtOnce {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        request.into_body().collect().now_or_never().expect("it is there at once").expect("a message");
        let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
        let body = Full::new(Bytes::from_static(&[0; 5])).with_trailers(ready(Some(Ok(trailers))));
        ready(Ok(http::Response::new(Body::new(body))))
    }
}
