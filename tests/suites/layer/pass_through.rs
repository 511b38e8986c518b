//! Calls that the layer passes through.

use tonic_idempotency::UserId;
use tonic_idempotency_tests::Lines;
use tower::ServiceExt as _;
use tracing::level_filters::LevelFilter;

use crate::prelude::*;

#[tokio::test]
async fn runs_a_call_without_a_key_as_if_the_layer_were_not_there() {
    let shop = Shop::new().await.with_key(None);
    for finished in 1..=2 {
        let seen = shop.create("a").await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, None));
        assert_eq!(shop.handler.finished(), finished);
    }
    shop.create("panic").await.expect_err("tonic handles the panic");
}

#[tokio::test]
async fn runs_a_procedure_that_is_not_opted_in_whatever_its_key() {
    let shop = Shop::new().await;
    for finished in 1..=2 {
        let mut request = shop::request("a", shop.user, shop.key);
        if finished == 2 {
            request.metadata_mut().insert("idempotency-key", "nonsense".parse().expect("metadata"));
        }
        let seen = shop.client.clone().get_order(request).await.map(Seen::of).expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, None));
        assert_eq!(shop.handler.finished(), finished);
    }
}

#[tokio::test]
async fn streams_a_streaming_procedure() {
    let shop = Shop::new().await;
    let request = shop::request("a", shop.user, shop.key);
    let mut stream = shop.client.clone().watch_orders(request).await.expect("a call").into_inner();
    let mut names = Vec::new();
    while let Some(reply) = stream.message().await.expect("a reply") {
        names.push(reply.order.expect("an order").name);
    }
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test]
async fn runs_every_call_without_a_store_and_says_so_once() {
    let (lines, guard) = Lines::collect(LevelFilter::WARN);
    let shop = Shop::with(|builder| builder).await;
    drop(guard);
    assert_eq!(lines.count("the layer has no store"), 1);
    for finished in 1..=2 {
        let seen = shop.create("a").await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, None));
        assert_eq!(shop.handler.finished(), finished);
    }
    // A key is neither parsed nor required.
    let mut request = shop::request("a", shop.user, None);
    request.metadata_mut().insert("idempotency-key", "nonsense".parse().expect("metadata"));
    shop.client.clone().create_order(request).await.expect("a call");
    shop.client.clone().pay(shop::request("a", None, None)).await.expect("a call");
}

#[tokio::test]
async fn refuses_a_call_with_a_key_and_without_a_user_by_default() {
    let (lines, _guard) = Lines::collect(LevelFilter::WARN);
    let shop = Shop { user: None, ..Shop::new().await };
    for _ in 0..3 {
        assert_refused(shop.create("a").await, Code::Unauthenticated, Reason::NoUser);
    }
    assert_eq!(shop.handler.started(), 0);
    // The client cannot know that the server is wired wrongly.
    assert_eq!(lines.count("put the authentication in front of the idempotency layer"), 1, "{}", lines.take());
    shop.with_key(None).create("a").await.expect("a call without a key");
}

#[tokio::test]
async fn runs_a_call_without_a_user_unprotected_if_the_layer_says_so() {
    let policies = Policies { on_no_user: UserPolicy::PassThrough, ..Policies::default() };
    let shop = Shop::with(|builder| builder.store(MemoryStore::new()).policies(policies)).await;
    let shop = Shop { user: None, ..shop };
    for finished in 1..=2 {
        let seen = shop.create("a").await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, None));
        assert_eq!(shop.handler.finished(), finished);
    }
}

/// Content types of no protocol that the layer reads or translates.
const NOT_READ: [Option<&str>; 6] = [
    None,
    Some("application/grpc-foo"),
    Some("application/grpc+thrift"),
    Some("application/grpc+proto-foo"),
    Some("application/protobuf"),
    Some("text/plain"),
];

#[tokio::test]
async fn refuses_a_call_with_a_key_in_a_protocol_that_the_layer_cannot_read_whatever_the_policies() {
    let policies = Policies {
        on_no_user: UserPolicy::PassThrough,
        on_store_unavailable: StorePolicy::Proceed,
        ..Policies::default()
    };
    for (content_type, user) in NOT_READ.iter().flat_map(|content_type| [(content_type, true), (content_type, false)]) {
        let handler = Counting::default();
        let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).policies(policies);
        let service = builder.build().expect("a layer").layer(shop::server(handler.clone()));
        for key in ["8e03978e-40d5-43dd-bc93-6894a57f9324", ""] {
            let empty = http_body_util::Full::new(bytes::Bytes::from_static(b"\0\0\0\0\0"));
            let mut request = http::Request::post("/shop.v1.Shop/Touch").body(tonic::body::Body::new(empty));
            let request = request.as_mut().expect("a request");
            if user {
                request.extensions_mut().insert(UserId::new(Uuid::from_u128(1)));
            }
            let headers =
                [("content-type", *content_type), ("idempotency-key", Some(key).filter(|key| !key.is_empty()))];
            for (name, value) in headers {
                if let Some(value) = value {
                    request.headers_mut().insert(name, value.parse().expect("a value"));
                }
            }
            let request = std::mem::take(request);
            let response = service.clone().oneshot(request).await.expect("infallible");
            let code = match content_type {
                Some(name) if name.starts_with("application/grpc") => 200,
                _ if key.is_empty() => response.status().as_u16(),
                _ => 415,
            };
            assert_eq!(response.status(), code, "{content_type:?} {key:?}");
            let refused = Status::from_header_map(response.headers()).and_then(|status| Reason::of(&status));
            // Without a key, it is for the inner service to answer.
            assert_eq!(refused, (!key.is_empty()).then_some(Reason::RequestMalformed), "{content_type:?} {key:?}");
            assert!(key.is_empty() || handler.started() == 0, "{content_type:?}");
        }
    }
}

#[test]
fn refuses_a_layer_without_procedures_unless_they_are_allowed_to_be_missing() {
    let lossy = shop::LOSSY_FILE_DESCRIPTOR_SET;
    let error = IdempotencyLayer::builder(lossy).build().expect_err("the options are lost");
    assert!(error.to_string().contains("encode_file_descriptor_set"), "{error}");
    assert!(IdempotencyLayer::builder(lossy).allow_no_procedures().build().is_ok());
    assert_eq!(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).build().expect("a layer").procedures().count(), 4);
}
