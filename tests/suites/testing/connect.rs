//! Connect in front of a harness.

use http::Request;
use http_body_util::BodyExt as _;
use quickstart::FILE_DESCRIPTOR_SET;
use tonic::body::Body;
use tonic_idempotency::connect::ConnectLayer;
use tower::ServiceExt as _;
use tower_layer::Layer as _;
use uuid::Uuid;

use crate::harness::{CREATE, call, create, harness};

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
