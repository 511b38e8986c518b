//! Unary calls without a network: a service is called as tonic's server calls it.

use std::{convert::Infallible, future::poll_fn};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use prost::Message;
use tonic::body::Body;
use tower::Service;
use uuid::Uuid;

use crate::error::Error;

/// A service that tonic's server accepts.
pub(crate) trait GrpcService:
    Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
{
}

impl<S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>> GrpcService for S {}

/// Makes a request as tonic's server receives it from hyper.
pub(crate) fn request(path: &str, message: &impl Message, key: Option<Uuid>) -> Result<http::Request<Body>, Error> {
    let message = message.encode_to_vec();
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len().try_into()?);
    framed.put_slice(&message);
    let mut request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "tonic/0.14");
    if let Some(key) = key {
        request = request.header("idempotency-key", key.to_string());
    }
    Ok(request.body(Body::new(Full::new(framed.freeze())))?)
}

/// Waits until the service is ready, and begins a call.
pub(crate) async fn begin<S: GrpcService>(service: &mut S, request: http::Request<Body>) -> Result<S::Future, Error> {
    poll_fn(|cx| service.poll_ready(cx)).await?;
    Ok(service.call(request))
}

/// Makes a call, and reads its response to the end, as a connection does.
pub(crate) async fn answer(service: &mut impl GrpcService, request: http::Request<Body>) -> Result<(), Error> {
    let mut body = begin(service, request).await?.await?.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len);
    }
    if bytes == 0 { Err("a measured call failed".into()) } else { Ok(()) }
}
