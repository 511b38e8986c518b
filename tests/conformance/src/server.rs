//! The servers.

use std::error::Error;

use connectrpc::{ConnectRpcService, Limits, Router};
use http::{Request, Response};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{codec::CompressionEncoding, codegen::StdError, service::Routes, transport::Server};
use tonic_idempotency::{
    IdempotencyLayer,
    connect::ConnectLayer,
    layer::{self, BuildError, IdempotencyLayerBuilder},
    policy::{Mode, Procedure},
    store::MemoryStore,
};
use tonic_web::GrpcWebLayer;
use tower::{Service, filter::AsyncFilterLayer};
use tower_layer::Layer as _;

use crate::{
    caller::{FINAL, UNARY},
    native,
    proto::{self, FILE_DESCRIPTOR_SET, conformance_service_server::ConformanceServiceServer},
    setup::{Kind, Setup},
    tonic_service,
    trailers::WithTrailers,
    whole::whole,
};

/// The default of tonic, of `connectrpc` and of the layers, in bytes.
const LIMIT: usize = 4 << 20;

/// The header of a gRPC message, in bytes. `connectrpc` counts it as part of the body.
const HEADER_LEN: usize = 5;

/// Serves until the process is killed.
pub(crate) async fn serve(
    listener: TcpListener,
    kind: Kind,
    setup: Setup,
    limit: Option<usize>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let limit = limit.unwrap_or(LIMIT);
    match kind {
        Kind::Tonic => serve_tonic(listener, setup, limit).await,
        Kind::Native => serve_native(listener, setup, limit).await,
    }
}

async fn serve_tonic(listener: TcpListener, setup: Setup, limit: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut service = ConformanceServiceServer::new(tonic_service::Service).max_decoding_message_size(limit);
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Zstd, CompressionEncoding::Deflate] {
        service = service.accept_compressed(encoding).send_compressed(encoding);
    }
    let service = WithTrailers(service);
    let incoming = TcpListenerStream::new(listener);
    let server = Server::builder().accept_http1(true).layer(AsyncFilterLayer::new(whole)).layer(setup);
    match setup {
        Setup::Bare => server.layer(GrpcWebLayer::new()).add_service(service).serve_with_incoming(incoming).await?,
        Setup::Plain | Setup::Keyed | Setup::Replayed => {
            let connect = ConnectLayer::new(FILE_DESCRIPTOR_SET)?.max_message_bytes(limit);
            let routes = Routes::new(idempotency(limit)?.layer(service));
            server.layer(connect).layer(GrpcWebLayer::new()).add_routes(routes).serve_with_incoming(incoming).await?;
        }
    }
    Ok(())
}

async fn serve_native(listener: TcpListener, setup: Setup, limit: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut types = buffa::type_registry::TypeRegistry::new();
    proto::native::register_types(&mut types);
    buffa::type_registry::set_type_registry(types);
    let limits = Limits::default().with_max_request_body_size(limit + HEADER_LEN).with_max_message_size(limit);
    let service = ConnectRpcService::new(Router::new().add_service(native::Service.into())).with_limits(limits);
    match setup {
        Setup::Bare => serve_with_hyper(listener, setup.layer(service)).await,
        Setup::Plain | Setup::Keyed | Setup::Replayed => {
            serve_with_hyper(listener, setup.layer(idempotency(limit)?.layer(service))).await
        }
    }
}

fn idempotency(limit: usize) -> Result<IdempotencyLayer, BuildError> {
    let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).max_request_bytes(limit);
    let procedure = |path| Procedure::builder(path).mode(Mode::Reserved).final_errors(FINAL);
    let accepted =
        [layer::CompressionEncoding::Deflate, layer::CompressionEncoding::Gzip, layer::CompressionEncoding::Zstd];
    let builder = accepted.into_iter().fold(builder, IdempotencyLayerBuilder::accept_compressed);
    UNARY.into_iter().map(procedure).fold(builder, |builder, procedure| builder.procedure(procedure)).build()
}

async fn serve_with_hyper<S, R>(listener: TcpListener, service: S) -> Result<(), Box<dyn Error + Send + Sync>>
where
    S: Service<Request<hyper::body::Incoming>, Response = Response<R>> + Clone + Send + Sync + 'static,
    S::Error: Into<StdError>,
    S::Future: Send,
    R: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            // A caller that disconnects is part of the suite.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
