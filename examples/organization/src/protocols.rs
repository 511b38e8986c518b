//! One port for every client: gRPC, gRPC-Web and Connect (both translated to gRPC), and the pages of browsers.

use std::time::Duration;

use axum::{
    Router,
    http::{HeaderName, Method, header},
    middleware::from_fn,
};
use tonic::service::Routes;
use tonic_idempotency::{connect::ConnectLayer, layer::BuildError};
use tonic_web::GrpcWebLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_layer::Layer;

use crate::{FILE_DESCRIPTOR_SET, lost_answer, observed};

/// The request headers that a page of another origin may send: those of gRPC-Web and Connect clients, and the key.
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

/// The response headers that such a page may read: those about its key, and those of a failed gRPC-Web call.
const READ: [HeaderName; 7] = [
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-status-details-bin"),
    HeaderName::from_static("idempotency-expires"),
    HeaderName::from_static("idempotency-outcome"),
    HeaderName::from_static("idempotency-status"),
    HeaderName::from_static("idempotent-replayed"),
];

/// How long a browser caches a preflight response. Chromium's maximum.
const MAX_AGE: Duration = Duration::from_secs(2 * 60 * 60);

/// Puts every protocol in front of `grpc`, and adds the pages of `site`.
///
/// The order matters. The site comes first, then Connect: gRPC-Web's layer responds with 400 to any other protocol over
/// HTTP/1.1. Authentication and idempotency come last, in `grpc`, so that a key is the same in every protocol.
pub(crate) fn all(site: Router, grpc: Routes) -> Result<Routes, BuildError> {
    // Behind the other protocols, all calls are gRPC.
    let grpc = Routes::from(grpc.into_axum_router().layer(from_fn(observed::observe)));
    let grpc_web = GrpcWebLayer::new().layer(grpc);
    let connect = ConnectLayer::new(FILE_DESCRIPTOR_SET)?.layer(grpc_web);
    Ok(site.fallback_service(from_fn(lost_answer::lose).layer(cors().layer(connect))).into())
}

/// Allows calls from pages of any origin. That is safe because there are no cookies and every call needs a token. A
/// service that knows the origins of its pages should list them here.
fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(AllowOrigin::any())
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(SENT)
        .expose_headers(READ)
        .max_age(MAX_AGE)
}
