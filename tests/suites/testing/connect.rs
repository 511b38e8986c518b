//! Connect in front of a harness, and services of `connectrpc` in one.

use connectrpc::{ConnectRpcService, Router};
use http::Request;
use http_body_util::BodyExt as _;
use tonic::{body::Body, service::Routes};
use tonic_idempotency::connect::ConnectLayer;
use tonic_idempotency_tests::catalog::{
    self, Desk,
    proto::{Item, catalog_client::CatalogClient, catalog_server::CatalogServer},
};
use tower::ServiceExt as _;

use super::harness::{CREATE, call, create, harness};
use super::prelude::*;

#[tokio::test]
async fn replays_in_json_what_a_tonic_client_has_created() {
    let (harness, orders) = harness(create, |procedure| procedure);
    let key = Uuid::new_v4();
    let first = call(&harness, &orders, key, "lamp").await.executed_once().into_message();

    let connect = ConnectLayer::new(FILE_DESCRIPTOR_SET).expect("the descriptors").layer(harness.channel());
    let request = Request::post(CREATE)
        .header("content-type", "application/json")
        .header("idempotency-key", key.to_string())
        .extension(harness.caller().expect("a caller").clone())
        .body(Body::new(http_body_util::Full::from(r#"{"item":"lamp"}"#)))
        .expect("a request");
    let response = connect.oneshot(request).await.expect("an answer");
    assert_eq!(response.headers()["idempotent-replayed"], "true");
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(json["orderId"], *first.order_id);
    assert_eq!(harness.runs(), 1);
}

#[tokio::test]
async fn serves_the_routes_of_tonic_and_a_service_of_connectrpc() {
    let desk = Desk::default();
    let routes = Routes::new(CatalogServer::new(desk.clone()));
    let native = ConnectRpcService::new(Router::new().add_service(desk.clone().into()));
    let harnesses =
        [Harness::new(catalog::FILE_DESCRIPTOR_SET, routes), Harness::new(catalog::FILE_DESCRIPTOR_SET, native)];
    for harness in harnesses {
        let mut client = CatalogClient::new(harness.channel());
        let key = Uuid::new_v4();
        let first = harness.call(key, Item::default(), |request| client.create(request)).await.executed_once();
        let retry = harness.call(key, Item::default(), |request| client.create(request)).await.replayed();
        assert_eq!(retry.into_message(), first.into_message());
    }
    assert_eq!(desk.finished(), 2);
}
