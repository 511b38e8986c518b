//! Keys on procedures that are not opted in.

use http::uri::PathAndQuery;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{service::InterceptorLayer, transport::Server};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_idempotency::policy::UnprotectedKeyPolicy;
use tonic_idempotency_tests::shop::LOSSY_FILE_DESCRIPTOR_SET;
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};

use crate::build::compile_with;
use crate::prelude::*;

const GET: &str = "/shop.v1.Shop/GetOrder";

fn refusing(builder: IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    builder.store(MemoryStore::new()).on_unprotected_key(UnprotectedKeyPolicy::Refuse)
}

/// Calls `GetOrder`.
async fn get(shop: &Shop, key: Option<Uuid>) -> Result<Seen, Status> {
    shop.client.clone().get_order(shop::request("a", shop.user, key)).await.map(Seen::of)
}

#[tokio::test]
async fn are_refused_if_the_layer_says_so() {
    let shop = Shop::with(refusing).await;
    let status = assert_refused(get(&shop, shop.key).await, Code::InvalidArgument, Reason::KeyUnsupported);
    assert!(status.message().contains("send the call without the idempotency-key header"), "{status:?}");
    let violations = status.get_details_bad_request().expect("a BadRequest").field_violations;
    assert_eq!(violations[0].field, "idempotency-key");
    // Whatever the key is.
    let mut nonsense = shop::request("a", shop.user, None);
    nonsense.metadata_mut().insert("idempotency-key", "nonsense".parse().expect("metadata"));
    assert_refused(shop.client.clone().get_order(nonsense).await, Code::InvalidArgument, Reason::KeyUnsupported);
    assert_eq!(shop.handler.started(), 0);
}

#[tokio::test]
async fn are_refused_on_a_streaming_procedure_as_well() {
    let shop = Shop::with(refusing).await;
    assert_refused(
        shop.client.clone().watch_orders(shop::request("a", shop.user, shop.key)).await,
        Code::InvalidArgument,
        Reason::KeyUnsupported,
    );
    shop.client.clone().watch_orders(shop::request("a", shop.user, None)).await.expect("a call without a key");
}

#[tokio::test]
async fn are_no_reason_to_refuse_calls_without_a_key_or_to_a_procedure_that_is_opted_in() {
    let shop = Shop::with(refusing).await;
    get(&shop, None).await.expect("a call without a key");
    for replayed in [false, true] {
        shop.create("a").await.expect("a call").assert("processing", replayed);
    }
    // Without a store, the layer does nothing.
    let shop = Shop::with(|builder| builder.on_unprotected_key(UnprotectedKeyPolicy::Refuse)).await;
    get(&shop, shop.key).await.expect("a call");
}

#[tokio::test]
async fn are_subject_to_the_policy_of_their_procedure_then_of_their_service_then_of_the_layer() {
    use UnprotectedKeyPolicy::{PassThrough, Refuse};
    let service = "shop.v1.Shop";
    let cases = [
        (vec![], PassThrough, false),
        (vec![(GET, Refuse)], PassThrough, true),
        (vec![("shop.v1.Shop/GetOrder", PassThrough)], Refuse, false),
        (vec![(service, Refuse)], PassThrough, true),
        (vec![(GET, PassThrough), (service, Refuse)], Refuse, false),
        (vec![("/shop.v1.Shop/WatchOrders", PassThrough)], Refuse, true),
        (vec![("billing.v1.Payments", PassThrough)], Refuse, true),
    ];
    for (of, default, is_refused) in cases {
        let shop = Shop::with(|builder| {
            let builder = builder.store(MemoryStore::new()).on_unprotected_key(default);
            of.iter().fold(builder, |builder, (name, policy)| builder.on_unprotected_key_of(*name, *policy))
        })
        .await;
        assert_eq!(get(&shop, shop.key).await.is_err(), is_refused, "{of:?} {default:?}");
    }
}

#[test]
fn cannot_have_a_policy_of_a_procedure_that_does_not_exist_or_is_opted_in() {
    let with = |name: &str| {
        refusing(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET))
            .on_unprotected_key_of(name, UnprotectedKeyPolicy::PassThrough)
    };
    let message = error(with("shop.v1.Shop/GetOrders"));
    assert!(message.contains("/shop.v1.Shop/GetOrders") && message.contains("no such procedure"), "{message}");
    let message = error(with("/shop.v1.Shop/Pay"));
    assert!(message.contains("/shop.v1.Shop/Pay") && message.contains("leave it out"), "{message}");
    // A procedure that is not in the descriptors may be served all the same.
    with("/billing.v1.Payments/Pay").build().expect("a layer");
}

/// The answer of a layer with these descriptors to a call with a key to `written.v1.Service/Read`.
async fn read(pool: DescriptorPool) -> Status {
    let layer = IdempotencyLayer::builder(pool).store(MemoryStore::new()).build().expect("a layer");
    call(&serve(layer).await, "/written.v1.Service/Read").await
}

#[tokio::test]
async fn are_subject_to_the_option_of_their_service() {
    let methods = "rpc Create(Request) returns (Response) { option (idempotency.v1.procedure) = {}; }
                   rpc Read(Request) returns (Response);";
    let refuse = "option (idempotency.v1.service) = { on_unprotected_key: UNPROTECTED_KEY_POLICY_REFUSE };";
    let status = read(compile(&format!("{refuse} {methods}"))).await;
    assert_rejected(&status, Code::InvalidArgument, Reason::KeyUnsupported);
    for option in ["", "option (idempotency.v1.service) = {};"] {
        let status = read(compile(&format!("{option} {methods}"))).await;
        assert_eq!((status.code(), Reason::of(&status)), (Code::Unimplemented, None), "passed through: {status:?}");
    }
    // The option opts nothing in.
    let error = IdempotencyLayer::builder(compile(&format!("{refuse} rpc Read(Request) returns (Response);"))).build();
    assert!(error.is_err_and(|error| error.to_string().contains("no procedure is opted in")));
}

#[test]
fn cannot_have_a_policy_that_this_version_does_not_know() {
    let option = include_str!("../../../proto/idempotency/v1/procedure.proto");
    let newer = option.replace(
        "UNPROTECTED_KEY_POLICY_REFUSE = 2;",
        "UNPROTECTED_KEY_POLICY_REFUSE = 2; UNPROTECTED_KEY_POLICY_NEWER = 99;",
    );
    let service = "option (idempotency.v1.service) = { on_unprotected_key: UNPROTECTED_KEY_POLICY_NEWER };
                   rpc Create(Request) returns (Response) { option (idempotency.v1.procedure) = {}; }";
    let message = error(IdempotencyLayer::builder(compile_with(service, Some(&newer))));
    assert!(message.contains("written.v1.Service") && message.contains("on_unprotected_key"), "{message}");
}

/// Serves the shop, health and reflection behind one layer, and connects.
async fn serve(layer: IdempotencyLayer) -> Channel {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (_, health) = tonic_health::server::health_reporter();
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(LOSSY_FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("descriptors");
    let server = Server::builder()
        .layer(InterceptorLayer::new(shop::authenticate))
        .layer(layer)
        .add_service(shop::server(Counting::default()))
        .add_service(health)
        .add_service(reflection)
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    shop::channel(address).await
}

/// The error of a call with a key to any path.
async fn call(channel: &Channel, path: &'static str) -> Status {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.expect("the server listens");
    let codec = tonic_prost::ProstCodec::<CreateOrderRequest, CreateOrderReply>::default();
    let request = shop::request("a", Some(Uuid::new_v4()), Some(Uuid::new_v4()));
    client.unary(request, PathAndQuery::from_static(path), codec).await.expect_err("no such procedure")
}

/// A client may send a key with every call that it makes.
#[tokio::test]
async fn do_not_keep_anyone_from_health_and_reflection() {
    let layer = refusing(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)).build().expect("a layer");
    let channel = serve(layer).await;
    let (user, key) = (Some(Uuid::new_v4()), Some(Uuid::new_v4()));
    let check = shop::with(HealthCheckRequest::default(), user, key);
    HealthClient::new(channel.clone()).check(check).await.expect("the health");
    let list = ServerReflectionRequest {
        message_request: Some(MessageRequest::ListServices(String::new())),
        ..ServerReflectionRequest::default()
    };
    let list = shop::with(tokio_stream::once(list), user, key);
    let mut answers = ServerReflectionClient::new(channel).server_reflection_info(list).await.expect("the reflection");
    answers.get_mut().message().await.expect("an answer").expect("an answer");
}

#[tokio::test]
async fn are_refused_on_services_without_descriptors_but_not_on_procedures_that_their_service_lacks() {
    let channel = serve(
        refusing(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET))
            .on_unprotected_key_of("billing.v1.Refunds", UnprotectedKeyPolicy::PassThrough)
            .build()
            .expect("a layer"),
    )
    .await;
    let status = call(&channel, "/billing.v1.Payments/Pay").await;
    assert_rejected(&status, Code::InvalidArgument, Reason::KeyUnsupported);
    for path in ["/billing.v1.Refunds/Refund", "/shop.v1.Shop/None", "/nonsense"] {
        let status = call(&channel, path).await;
        assert_eq!((status.code(), Reason::of(&status)), (Code::Unimplemented, None), "{path}: {status:?}");
    }
    let channel =
        serve(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build().expect("it")).await;
    assert_eq!(call(&channel, "/billing.v1.Payments/Pay").await.code(), Code::Unimplemented);
}

#[tokio::test]
async fn are_protected_once_the_procedure_is_opted_in_in_code() {
    let shop = Shop::with(|builder| refusing(builder).procedure(Procedure::builder(GET))).await;
    for replayed in [false, true] {
        get(&shop, shop.key).await.expect("a call").assert("completed", replayed);
    }
}
