//! One port for every client: gRPC as it is, gRPC-Web and Connect turned into it, and the pages of browsers let in.

use std::time::Duration;

use axum::{
    Router,
    http::{HeaderName, Method, header},
};
use tonic::service::Routes;
use tonic_idempotency::{connect::ConnectLayer, layer::BuildError};
use tonic_web::GrpcWebLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_layer::Layer;

use crate::FILE_DESCRIPTOR_SET;

/// What a page of another origin may send: what the clients of gRPC-Web and of Connect do, and a key.
const SENT: [HeaderName; 8] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    HeaderName::from_static("connect-protocol-version"),
    HeaderName::from_static("connect-timeout-ms"),
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("x-grpc-web"),
    HeaderName::from_static("x-user-agent"),
];

/// What it may read: what became of its key, and how gRPC-Web says in headers that a call failed.
const READ: [HeaderName; 5] = [
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-status-details-bin"),
    HeaderName::from_static("idempotency-status"),
    HeaderName::from_static("idempotent-replayed"),
];

/// How long a browser need not ask again whether it may call. Chromium believes at most this.
const MAX_AGE: Duration = Duration::from_secs(2 * 60 * 60);

/// Every protocol in front of `grpc`, and the pages of `site` beside them.
///
/// The order matters. The site comes first, then Connect: gRPC-Web's layer answers 400 to whatever comes over HTTP/1.1 in
/// another protocol. Authentication and idempotency come last, in `grpc`, so that a key is one key whatever protocol it came by.
pub(crate) fn all(site: Router, grpc: Routes) -> Result<Routes, BuildError> {
    let grpc_web = GrpcWebLayer::new().layer(grpc);
    let connect = ConnectLayer::new(FILE_DESCRIPTOR_SET)?.layer(grpc_web);
    Ok(site.fallback_service(cors().layer(connect)).into())
}

/// Pages of any origin may call: there are no cookies, and who has no token is refused. A service that knows the origins of
/// its pages names them here.
fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(AllowOrigin::any())
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(SENT)
        .expose_headers(READ)
        .max_age(MAX_AGE)
}
