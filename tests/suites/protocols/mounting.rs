//! The places where Connect can be mounted.

use http::{Request, Response, StatusCode};
use tonic::service::Routes;
use tonic_idempotency_tests::catalog::{Desk, proto::catalog_server::CatalogServer};
use tower::service_fn;

use crate::prelude::*;
use crate::{
    http::{Call, Version},
    watched::Watch,
};

fn connect() -> ConnectLayer {
    ConnectLayer::new(FILE_DESCRIPTOR_SET).expect("descriptors")
}

#[tokio::test]
async fn keeps_the_name_of_a_generated_server() {
    let desk = Desk::default();
    let routes = Routes::new(connect().layer(CatalogServer::new(desk.clone())));
    let address = serve(routes.prepare()).await;
    let server = Server { kind: Kind::Tonic, address, desk, user: Uuid::new_v4(), watch: Watch::default() };
    for (protocol, empty) in [(Protocol::Grpc, ""), (Protocol::Connect, ""), (Protocol::ConnectJson, "{}")] {
        server.send(protocol, server.call(protocol, "Describe", None, empty.as_bytes())).await.message();
    }
    assert_eq!(server.desk.finished(), 3);
}

#[tokio::test]
async fn passes_on_requests_that_are_not_connect() {
    let inner = service_fn(|request: Request<Body>| async move {
        let seen = format!("{} {}", request.method(), request.uri().path());
        Ok::<_, std::convert::Infallible>(Response::new(Body::new(http_body_util::Full::new(seen.into()))))
    });
    let address = serve(connect().layer(inner)).await;
    for (method, path, content_type) in [
        (Method::OPTIONS, "/catalog.v1.Catalog/Create", ""),
        (Method::POST, "/catalog.v1.Catalog/Create", "application/grpc"),
        (Method::POST, "/catalog.v1.Catalog/Create", "application/grpc-web+proto"),
        (Method::POST, "/other.v1.Other/Create", "application/json"),
        (Method::POST, "/catalog.v1.Catalog/None", "text/html"),
        (Method::GET, "/", ""),
    ] {
        let seen = format!("{method} {path}");
        let headers = vec![("content-type", content_type.to_owned())];
        let call = Call { version: Version::One, method, path: path.to_owned(), headers, body: Bytes::new() };
        assert_eq!(call.send(address).await.body, seen);
    }
}

#[tokio::test]
async fn translates_the_status_of_a_plain_http_answer() {
    for (http, code) in [
        (StatusCode::BAD_REQUEST, Code::Internal),
        (StatusCode::UNAUTHORIZED, Code::Unauthenticated),
        (StatusCode::FORBIDDEN, Code::PermissionDenied),
        (StatusCode::NOT_FOUND, Code::Unimplemented),
        (StatusCode::TOO_MANY_REQUESTS, Code::Unavailable),
        (StatusCode::BAD_GATEWAY, Code::Unavailable),
        (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable),
        (StatusCode::GATEWAY_TIMEOUT, Code::Unavailable),
        (StatusCode::IM_A_TEAPOT, Code::Unknown),
    ] {
        let proxy = service_fn(move |_| async move {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = http;
            Ok::<_, std::convert::Infallible>(response)
        });
        let address = serve(connect().layer(proxy)).await;
        let server =
            Server { kind: Kind::Tonic, address, desk: Desk::default(), user: Uuid::new_v4(), watch: Watch::default() };
        let outcome = server.create(Protocol::ConnectJson, Uuid::new_v4(), b"{}").await;
        let error = outcome.error();
        assert_eq!(error.code(), code, "{http}");
        assert!(error.message().contains(http.as_str()), "{http}: {error:?}");
    }
}
