//! Services whose descriptors are in an edition. `src/editions/vectors.rs` has their messages.

use buffa::{Message as _, MessageField};
use connectrpc::{ConnectRpcService, Router};
use serde_json::json;
use tonic_idempotency::layer::BuildError;
use tonic_idempotency_tests::orders::{
    FILE_DESCRIPTOR_SET, Till,
    native::{
        orders::v1::{Address, Channel, Order, OrdersExt, Placed},
        refunds::v1::{RefundRequest, RefundResponse, RefundsExt},
    },
};

use crate::prelude::*;
use crate::server::authenticate;

/// A procedure in edition 2023.
const PLACE: &str = "/orders.v1.Orders/Place";

/// A procedure in edition 2024.
const REFUND: &str = "/refunds.v1.Refunds/Refund";

struct Server {
    address: SocketAddr,
    till: Till,
    user: Uuid,
}

impl Server {
    async fn new() -> Self {
        let (layer, till) = (layer(), Till::default());
        let service = ServiceBuilder::new().map_request(authenticate).layer(layer);
        Self { address: serve(service.service(native(&till))).await, till, user: Uuid::new_v4() }
    }

    /// Starts a server with a layer that translates Connect in front.
    async fn behind_connect() -> Self {
        let (layer, till) = (layer(), Till::default());
        let connect = ConnectLayer::new(FILE_DESCRIPTOR_SET).expect("descriptors");
        let service = ServiceBuilder::new().map_request(authenticate).layer(connect).layer(layer);
        Self { address: serve(service.service(native(&till))).await, till, user: Uuid::new_v4() }
    }

    async fn call(&self, protocol: Protocol, path: &str, key: Option<Uuid>, message: &[u8]) -> Outcome {
        let mut call = protocol.call("", message).header("user", self.user);
        call.path = path.to_owned();
        if let Some(key) = key {
            call = call.header("idempotency-key", key);
        }
        protocol.read(call.send(self.address).await)
    }
}

fn layer() -> IdempotencyLayer {
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build().expect("a layer")
}

fn native(till: &Till) -> ConnectRpcService {
    let router = OrdersExt::register(Arc::new(till.clone()), Router::new());
    ConnectRpcService::new(RefundsExt::register(Arc::new(till.clone()), router))
}

fn order() -> Order {
    Order {
        customer: Some("Ada".to_owned()),
        quantity: 0,
        discount: Some(0),
        items: vec![1, 2],
        gifts: vec![3, 4],
        address: MessageField::some(Address { city: Some("London".to_owned()), ..Address::default() }),
        notes: [("a", "1"), ("b", "2")].into_iter().map(|(name, note)| (name.to_owned(), note.to_owned())).collect(),
        channel: Some(Channel::CHANNEL_PHONE),
        ..Order::default()
    }
}

fn order_in_json() -> Value {
    json!({
        "notes": {"b": "2", "a": "1"}, "channel": 2, "address": {"city": "London"}, "gifts": [3, "4"], "items": [1, 2],
        "discount": 0, "quantity": 0, "customer": "Ada",
    })
}

/// The same order, in other bytes: each list in the other form, an implicit zero, the delimited address in two pieces, and the
/// fields in another order.
fn order_in_other_bytes() -> Vec<u8> {
    let fields: [&[u8]; 9] = [
        &[0x40, 2],                                                                            // channel
        &[0x33, 0x34],                                                                         // address, empty
        &[0x2a, 2, 3, 4],                                                                      // gifts, packed
        &[0x20, 1, 0x20, 2],                                                                   // items, expanded
        &[0x10, 0],                                                                            // quantity
        &[0x18, 0],                                                                            // discount
        &[0x3a, 6, 0x12, 1, b'2', 0x0a, 1, b'b'],                                              // notes
        &[0x3a, 6, 0x0a, 1, b'a', 0x12, 1, b'1'],                                              // notes
        &[0x33, 0x0a, 6, b'L', b'o', b'n', b'd', b'o', b'n', 0x34, 0x0a, 3, b'A', b'd', b'a'], // address, customer
    ];
    fields.concat()
}

#[tokio::test]
async fn are_replayed_over_every_protocol() {
    let server = Server::new().await;
    let (binary, json) = (order().encode_to_vec(), order_in_json().to_string());
    for first in Kind::Native.protocols() {
        let key = Some(Uuid::new_v4());
        let before = server.till.done();
        let message = |protocol: &Protocol| if protocol.is_json() { json.as_bytes() } else { &binary };
        let outcome = server.call(*first, PLACE, key, message(first)).await;
        assert!(!outcome.is_replay(), "{outcome:?}");
        for protocol in Kind::Native.protocols() {
            let replay = server.call(*protocol, PLACE, key, message(protocol)).await;
            assert!(replay.is_replay(), "{first:?} {protocol:?} {replay:?}");
            if protocol.is_json() {
                let placed: Value = serde_json::from_slice(replay.message()).expect("JSON");
                // The implicit zero is left out, the explicit one is not; the secret is redacted by the option.
                let number = before + 1;
                assert_eq!(placed, json!({"number": number, "discount": 0, "receipt": {"text": "paid"}}));
            } else {
                let placed = Placed::decode_from_slice(replay.message()).expect("a response");
                assert_eq!((placed.number, placed.discount), (Some(before + 1), Some(0)));
                assert_eq!(placed.receipt.text.as_deref(), Some("paid"));
                assert_eq!(placed.receipt.secret, None);
            }
        }
        let replay = server.call(Protocol::Grpc, PLACE, key, &order_in_other_bytes()).await;
        assert!(replay.is_replay(), "{first:?} {replay:?}");
        assert_eq!(server.till.done(), before + 1);
    }
}

#[tokio::test]
async fn are_translated_from_connect() {
    let server = Server::behind_connect().await;
    let (key, json) = (Some(Uuid::new_v4()), order_in_json().to_string());
    let first = server.call(Protocol::ConnectJson, PLACE, key, json.as_bytes()).await;
    let placed: Value = serde_json::from_slice(first.message()).expect("JSON");
    assert_eq!(placed, json!({"number": 1, "discount": 0, "receipt": {"text": "paid", "secret": "only once"}}));
    for protocol in [Protocol::Connect, Protocol::Grpc] {
        assert!(server.call(protocol, PLACE, key, &order().encode_to_vec()).await.is_replay(), "{protocol:?}");
    }
    // Without a key, the message is only translated.
    let refund = server.call(Protocol::ConnectJson, REFUND, None, br#"{"cents": 5}"#).await;
    assert_eq!(refund.message().as_ref(), br#"{"cents":"5"}"#);
    let error = server.call(Protocol::ConnectJson, REFUND, None, br#"{"Cents": 5}"#).await;
    assert_eq!(error.error().code(), Code::InvalidArgument);
    assert_eq!(server.till.done(), 2);
}

#[tokio::test]
async fn have_the_policies_of_the_option() {
    let server = Server::new().await;
    let outcome = server.call(Protocol::Grpc, PLACE, None, &order().encode_to_vec()).await;
    assert_eq!(Reason::of(outcome.error()), Some(Reason::KeyRequired));
    let first = server.call(Protocol::Connect, PLACE, Some(Uuid::new_v4()), &order().encode_to_vec()).await;
    let placed = Placed::decode_from_slice(first.message()).expect("a response");
    assert_eq!(placed.receipt.secret.as_deref(), Some("only once"), "the first caller gets the secret");
}

/// The option is imported with `import option`.
#[tokio::test]
async fn in_edition_2024_are_replayed_too() {
    let server = Server::new().await;
    let request = RefundRequest { order: Some("7".to_owned()), cents: 0, ..RefundRequest::default() };
    let key = Some(Uuid::new_v4());
    server.call(Protocol::ConnectJson, REFUND, key, br#"{"cents": "0", "order": "7"}"#).await.message();
    let replay = server.call(Protocol::Grpc, REFUND, key, &request.encode_to_vec()).await;
    assert!(replay.is_replay(), "{replay:?}");
    assert_eq!(RefundResponse::decode_from_slice(replay.message()).expect("a response").cents, Some(0));
    assert_eq!(server.till.done(), 1);
}

#[test]
fn that_are_not_supported_are_named() {
    // As protoc would write edition 2026.
    let (now, then) = ([0x70, 0xe8, 0x07], [0x70, 0xea, 0x07]);
    let mut descriptors = FILE_DESCRIPTOR_SET.to_vec();
    let at = descriptors.windows(3).position(|bytes| bytes == now).expect("edition 2023");
    descriptors[at..at + 3].copy_from_slice(&then);
    let error = IdempotencyLayer::builder(descriptors.as_slice()).build().expect_err("an unknown edition");
    let BuildError::Edition { file, feature, why } = error else { panic!("{error:?}") };
    assert_eq!((file.as_str(), feature.as_str()), ("orders/v1/orders.proto", "edition"));
    assert!(why.contains("2026"), "{why}");
}

/// Checks the limitation in `docs/settings.md`. A failure means that it is gone, and that the page can say so.
#[test]
fn are_not_known_to_protox_and_prost() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/data/editions");
    let option = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto");
    let error = protox::compile(["orders/v1/orders.proto"], [data, option]).expect_err("an error of protox");
    assert!(error.to_string().contains("found 'edition'"), "{error}");

    let set: prost_types::FileDescriptorSet = prost::Message::decode(FILE_DESCRIPTOR_SET).expect("a descriptor set");
    let generate = || tonic_prost_build::configure().out_dir(std::env::temp_dir()).compile_fds(set);
    let panic = std::panic::catch_unwind(generate).expect_err("a panic of prost");
    assert_eq!(panic.downcast_ref().map(String::as_str), Some("unknown syntax: editions"));
}
