//! The two servers, one of tonic and one of `connectrpc`.

use connectrpc::{ConnectRpcService, Limits, Router};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    service::{Routes, interceptor::InterceptedService},
    transport::Server as TonicServer,
};
use tonic_idempotency::{UserId, layer::IdempotencyLayerBuilder};
use tonic_idempotency_tests::{
    catalog::{Desk, proto::catalog_server::CatalogServer},
    shop,
};
use tonic_web::GrpcWebLayer;
use tower::util::MapFutureLayer;

use crate::prelude::*;
use crate::{http::Call, watched::Watch};

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A tonic server, with Connect and gRPC-Web translated to gRPC in front of the layer.
    Tonic,
    /// A `connectrpc` server, which speaks all protocols itself, behind the layer.
    Native,
}

/// A listening server, and the work of its handlers.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    pub(crate) desk: Desk,
    pub(crate) user: Uuid,
    pub(crate) watch: Watch,
}

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::Tonic, Self::Native];

    pub(crate) fn protocols(self) -> &'static [Protocol] {
        use Protocol::{Connect, ConnectJson, Grpc, GrpcJson, GrpcWeb, GrpcWebText};
        match self {
            Self::Tonic => &[Grpc, GrpcWeb, GrpcWebText, Connect, ConnectJson],
            Self::Native => &[Grpc, GrpcJson, GrpcWeb, Connect, ConnectJson],
        }
    }
}

impl Server {
    /// Starts a server with a store in memory.
    pub(crate) async fn new(kind: Kind) -> Self {
        Self::with(kind, |builder| builder).await
    }

    /// Starts a server with a store in memory and a customised layer.
    pub(crate) async fn with(
        kind: Kind,
        build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
    ) -> Self {
        Self::set(kind, build, |connect| connect).await
    }

    /// Starts a server with a store in memory and customised layers. A native server has no Connect in front.
    pub(crate) async fn set(
        kind: Kind,
        build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
        connect: impl FnOnce(ConnectLayer) -> ConnectLayer,
    ) -> Self {
        let layer = build(in_memory()).build().expect("a layer");
        Self::layered(kind, layer, ConnectLayer::new(FILE_DESCRIPTOR_SET).map(connect)).await
    }

    /// Starts a server with any layer.
    pub(crate) async fn layered(
        kind: Kind,
        layer: IdempotencyLayer,
        connect: Result<ConnectLayer, tonic_idempotency::layer::BuildError>,
    ) -> Self {
        let (desk, watch) = (Desk::default(), Watch::default());
        let address = match kind {
            Kind::Tonic => serve_tonic(&desk, watch.clone(), layer, connect.expect("descriptors")).await,
            Kind::Native => {
                let limits = Limits::unlimited().with_max_request_body_size(64 << 20).with_max_message_size(64 << 20);
                let router = Router::new().add_service(desk.clone().into());
                let service = ConnectRpcService::new(router).with_limits(limits);
                let watch = watch.clone();
                let builder = ServiceBuilder::new().map_future(move |call| watch.over(call)).map_request(authenticate);
                serve(builder.layer(layer).service(service)).await
            }
        };
        Self { kind, address, desk, user: Uuid::new_v4(), watch }
    }

    /// Starts a server with a store in memory that handles one call at a time, both behind Connect and behind the
    /// layer.
    pub(crate) async fn one_at_a_time(kind: Kind) -> Self {
        let layer = in_memory().build().expect("a layer");
        let (desk, authenticated) = (Desk::default(), ServiceBuilder::new().map_request(authenticate));
        let address = match kind {
            Kind::Tonic => {
                let connect = ConnectLayer::new(FILE_DESCRIPTOR_SET).expect("descriptors");
                let limited = authenticated.layer(connect).concurrency_limit(1).layer(GrpcWebLayer::new()).layer(layer);
                serve(limited.concurrency_limit(1).service(CatalogServer::new(desk.clone()))).await
            }
            Kind::Native => {
                let service = ConnectRpcService::new(Router::new().add_service(desk.clone().into()));
                serve(authenticated.concurrency_limit(1).layer(layer).concurrency_limit(1).service(service)).await
            }
        };
        Self { kind, address, desk, user: Uuid::new_v4(), watch: Watch::default() }
    }

    /// A call as the user, with a key if given.
    pub(crate) fn call(&self, protocol: Protocol, procedure: &str, key: Option<Uuid>, message: &[u8]) -> Call {
        let call = protocol.call(procedure, message).header("user", self.user);
        match key {
            Some(key) => call.header("idempotency-key", key),
            None => call,
        }
    }

    pub(crate) async fn send(&self, protocol: Protocol, call: Call) -> Outcome {
        protocol.read(call.send(self.address).await)
    }

    /// Calls `Create`.
    pub(crate) async fn create(&self, protocol: Protocol, key: Uuid, message: &[u8]) -> Outcome {
        self.send(protocol, self.call(protocol, "Create", Some(key), message)).await
    }
}

/// Runs a test over each protocol of both kinds of server, with what to say if it fails.
pub(crate) async fn over_each(server: impl AsyncFn(Kind) -> Server, test: impl AsyncFn(&Server, Protocol, &str)) {
    for kind in Kind::BOTH {
        let server = server(kind).await;
        for protocol in kind.protocols().iter().copied() {
            test(&server, protocol, &format!("{kind:?} {protocol:?}")).await;
        }
    }
}

fn in_memory() -> IdempotencyLayerBuilder {
    let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new());
    builder.adjust_procedures(|procedure| procedure.mode(Mode::Reserved))
}

async fn serve_tonic(desk: &Desk, watch: Watch, layer: IdempotencyLayer, connect: ConnectLayer) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = CatalogServer::new(desk.clone()).max_decoding_message_size(64 << 20);
    let routes = Routes::new(InterceptedService::new(layer.layer(server), shop::authenticate));
    let server = TonicServer::builder()
        .accept_http1(true)
        .layer(MapFutureLayer::new(move |call| watch.over(call)))
        .layer(connect)
        .layer(GrpcWebLayer::new())
        .add_routes(routes)
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    address
}

/// Serves any service over HTTP/1.1 and HTTP/2, without tonic.
pub(crate) async fn serve<S, R>(service: S) -> SocketAddr
where
    S: Service<http::Request<hyper::body::Incoming>, Response = http::Response<R>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
    R: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    R::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                // A client that disconnects is part of a test, so errors are ignored.
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// Takes the user from the header `user`. A real service would use an authenticated token.
pub(crate) fn authenticate<B>(mut request: http::Request<B>) -> http::Request<B> {
    let user = request.headers().get("user").and_then(|user| user.to_str().ok()?.parse().ok());
    if let Some(user) = user {
        request.extensions_mut().insert(UserId::new(user));
    }
    request
}
