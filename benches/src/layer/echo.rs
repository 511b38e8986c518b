//! The service that is measured, bare and wrapped by the layer.

use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tonic_idempotency::policy::{Limit, Limits};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::{
    Request, Response, Status,
    body::Body,
    server::NamedService,
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tonic_idempotency::{
    Caller, IdempotencyLayer, UserId, layer::IdempotencyLayerBuilder, policy::Procedure, store::Store,
};
use tower::Service;
use tower_layer::Layer as _;
use uuid::Uuid;

use self::proto::{
    HeldReply, HeldRequest, SayReply, SayRequest, echo_client::EchoClient, echo_server::Echo, echo_server::EchoServer,
};
use super::heap::CALLS;
use crate::Error;

/// The generated code of `proto/benchmarks/layer/v1/echo.proto`.
#[allow(missing_debug_implementations, unreachable_pub)]
pub(super) mod proto {
    tonic::include_proto!("benchmarks.layer.v1");
}

pub(super) const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/echo.fds"));

pub(super) const SAY: &str = "/benchmarks.layer.v1.Echo/Say";

/// Answers with the number of bytes that the request asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Saying {
    held: Arc<AtomicU64>,
}

impl Saying {
    /// Returns the number of calls that it holds.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

#[tonic::async_trait]
impl Echo for Saying {
    async fn say(&self, request: Request<SayRequest>) -> Result<Response<SayReply>, Status> {
        let SayRequest { reply_bytes, hold, .. } = request.into_inner();
        if hold {
            self.held.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        Ok(Response::new(SayReply { payload: vec![7; reply_bytes as usize].into() }))
    }

    async fn held(&self, _: Request<HeldRequest>) -> Result<Response<HeldReply>, Status> {
        Ok(Response::new(HeldReply { calls: Saying::held(self) }))
    }
}

/// A service that tonic's server accepts.
pub(super) trait Served:
    Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible, Future: Send + 'static>
    + NamedService
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Served for S where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible, Future: Send + 'static>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Creates the service without the layer.
pub(super) fn bare(handler: &Saying) -> impl Served + use<> {
    EchoServer::new(handler.clone())
}

/// Creates the service with the layer. Its procedure creates nothing, and all calls are those of one user, who may have as
/// many in flight as are measured.
pub(super) fn wrapped<T: Store>(handler: &Saying, store: T) -> Result<impl Served + use<T>, Error> {
    around(handler, IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).replay_cache_bytes(0))
}

/// Like [`wrapped`], with the default cache of replays.
pub(super) fn remembering<T: Store>(handler: &Saying, store: T) -> Result<impl Served + use<T>, Error> {
    around(handler, IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store))
}

fn around(handler: &Saying, layer: IdempotencyLayerBuilder) -> Result<impl Served + use<>, Error> {
    let layer = layer
        .procedure(Procedure::builder(SAY))
        .limits(Limits { in_flight: Limit::new(1024, CALLS), ..Limits::default() })
        .caller_resolver(|_: &http::HeaderMap, _: &http::Extensions| {
            Ok(Some(Caller::new(UserId::new(Uuid::from_u128(1)))))
        })
        .build()?;
    Ok(layer.layer(bare(handler)))
}

/// Serves on a free port of the loopback interface until the process ends.
pub(super) async fn serve(service: impl Served) -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
    Ok(address)
}

/// Creates a client with a connection of its own.
pub(super) async fn connect(address: SocketAddr) -> Result<EchoClient<Channel>, Error> {
    Ok(EchoClient::new(Endpoint::new(format!("http://{address}"))?.connect().await?))
}

/// Creates a small request for a client.
pub(super) fn message(key: Option<Uuid>) -> Result<Request<SayRequest>, Error> {
    let mut request = Request::new(SayRequest { payload: vec![7; 100].into(), reply_bytes: 100, hold: false });
    if let Some(key) = key {
        request.metadata_mut().insert("idempotency-key", key.to_string().parse()?);
    }
    Ok(request)
}

/// Creates a request as tonic's server receives it from hyper.
pub(super) fn request(message: &SayRequest, key: Option<Uuid>) -> Result<http::Request<Body>, Error> {
    let message = message.encode_to_vec();
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len().try_into()?);
    framed.put_slice(&message);
    let mut request = http::Request::post(SAY)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "tonic/0.14");
    if let Some(key) = key {
        request = request.header("idempotency-key", key.to_string());
    }
    Ok(request.body(Body::new(Full::new(framed.freeze())))?)
}

/// Makes a call and reads its response to the end, as a connection does. Returns the size of the response in bytes.
pub(super) async fn call(service: &mut impl Served, request: http::Request<Body>) -> Result<usize, Error> {
    poll_fn(|cx| service.poll_ready(cx)).await?;
    let mut body = service.call(request).await?.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len);
    }
    if bytes == 0 { Err("a measured call failed".into()) } else { Ok(bytes) }
}
