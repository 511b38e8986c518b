//! The shop without a network, bare and wrapped: services that are called as tonic's server calls them.

use std::{convert::Infallible, future::poll_fn};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::runtime::{self, Runtime};
use tonic_idempotency::{
    layer::IdempotencyLayerBuilder,
    policy::{Limit, Limits, Mode, Procedure},
    store::MemoryStore,
};
use tonic_idempotency_tests::shop::proto::shop_server::ShopServer;
use tower::Service;

use crate::prelude::*;

pub(crate) const CREATE: &str = "/shop.v1.Shop/CreateOrder";

/// Lets its duplicates wait, and creates no tracked resource.
pub(crate) const CANCEL: &str = "/shop.v1.Shop/Cancel";

/// Not opted in, but by [`with_transactions`].
pub(crate) const GET: &str = "/shop.v1.Shop/GetOrder";

/// A service that tonic's server takes.
pub(crate) trait Server:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static> + Clone + 'static
{
}

impl<S> Server for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static> + Clone + 'static
{
}

/// A shop without the layer.
pub(crate) fn bare(handler: &Counting) -> impl Server + use<> {
    ShopServer::new(handler.clone())
}

/// A shop with the layer, on a new store in memory.
pub(crate) fn wrapped(handler: &Counting) -> impl Server + use<> {
    around(handler, IdempotencyLayer::builder(FILE_DESCRIPTOR_SET))
}

/// The same without the replay cache: each replay claims its key.
pub(crate) fn without_replay_cache(handler: &Counting) -> impl Server + use<> {
    around(handler, IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).replay_cache_bytes(0))
}

/// A shop whose [`CANCEL`] has the layer's defaults, and may have its key in the name.
pub(crate) fn with_key_field(handler: &Counting, key_field: bool) -> impl Server + use<> {
    let procedure = Procedure::builder(CANCEL);
    let procedure = if key_field { procedure.key_field("name") } else { procedure };
    around(handler, IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).procedure(procedure))
}

/// The same with [`GET`] opted in, in transactional mode.
pub(crate) fn with_transactions(handler: &Counting) -> impl Server + use<> {
    let get = Procedure::builder(GET).mode(Mode::Transactional);
    around(handler, IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).procedure(get))
}

fn around(handler: &Counting, builder: IdempotencyLayerBuilder) -> impl Server + use<> {
    // Many calls of one user, in flight at once.
    let builder = builder.limits(Limits { in_flight: Limit::new(2000, 2000), ..Limits::default() });
    builder
        .store(MemoryStore::new().accept_transactions())
        .build()
        .expect("the layer can be built")
        .layer(bare(handler))
}

/// A runtime on this thread, whose allocations are then all there are.
pub(crate) fn runtime() -> Runtime {
    runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// A request as hyper gives it to tonic's server, of an authenticated user.
pub(crate) fn request(path: &str, name: &str, key: Option<Uuid>) -> Request<Body> {
    let message = CreateOrderRequest { name: name.to_owned(), padding: vec![7; 60], ..CreateOrderRequest::default() };
    let mut request = Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "tonic/0.14")
        .header("grpc-accept-encoding", "gzip,zstd");
    if let Some(key) = key {
        request = request.header("idempotency-key", key.to_string());
    }
    let mut request = request.body(Body::new(Full::new(framed(&message.encode_to_vec())))).expect("a request");
    request.extensions_mut().insert(UserId::new(Uuid::from_u128(1)));
    request
}

/// A call from its request to the end of its response, as the connection polls it. The response is read and dropped.
pub(crate) async fn call(service: &mut impl Server, request: Request<Body>) -> Response<()> {
    let Ok(()) = poll_fn(|cx| service.poll_ready(cx)).await;
    let Ok(response) = service.call(request).await;
    let (parts, mut body) = response.into_parts();
    while let Some(frame) = body.frame().await {
        frame.expect("a body without errors");
    }
    Response::from_parts(parts, ())
}

pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut body = BytesMut::with_capacity(5 + message.len());
    body.put_u8(0);
    body.put_u32(message.len().try_into().expect("a length"));
    body.put_slice(message);
    body.freeze()
}
