//! Compression on the wire, in either direction.

use std::io::{Read as _, Write as _};

use tonic_idempotency::layer;
use tonic_idempotency_tests::shop::proto::{PayReply, shop_server::ShopServer};

use crate::prelude::*;
use crate::{
    harness::accept_all,
    raw::{self, Answer},
};

const PAY: &str = "/shop.v1.Shop/Pay";
const TOUCH: &str = "/shop.v1.Shop/Touch";

/// No compression, and each enabled encoding.
const ENCODINGS: [&str; 4] = ["identity", "gzip", "zstd", "deflate"];

/// Compresses a message without tonic, like a client of another library.
pub(crate) fn pack(encoding: &str, message: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::best();
    let packed = match encoding {
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(message).and_then(|()| encoder.finish())
        }
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(message).and_then(|()| encoder.finish())
        }
        "zstd" => zstd::encode_all(message, 3),
        _ => Ok(message.to_vec()),
    };
    packed.expect("writing to memory succeeds")
}

fn unpack(encoding: &str, packed: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    let unpacked = match encoding {
        "deflate" => flate2::read::ZlibDecoder::new(packed).read_to_end(&mut message).map(|_| ()),
        "gzip" => flate2::read::GzDecoder::new(packed).read_to_end(&mut message).map(|_| ()),
        "zstd" => zstd::stream::copy_decode(packed, &mut message),
        other => panic!("unexpected encoding: {other}"),
    };
    unpacked.expect("a message in its encoding");
    message
}

/// The encoding of an answer, and its message.
fn message(answer: &Answer) -> (&str, Vec<u8>) {
    assert_eq!(answer.status().code(), Code::Ok, "{:?}", answer.status());
    let (header, message) = answer.body.split_at(5);
    assert_eq!(header[1..], u32::try_from(message.len()).expect("a short message").to_be_bytes());
    let encoding = answer.headers.get("grpc-encoding").map(|encoding| encoding.to_str().expect("a name"));
    match (header[0], encoding) {
        (0, None) => ("identity", message.to_vec()),
        (1, Some(encoding)) => (encoding, unpack(encoding, message)),
        other => panic!("flag and grpc-encoding do not match: {other:?}"),
    }
}

/// Calls with a message in `encoding`, as a caller that accepts `accepts`.
async fn call(shop: &Shop, path: &str, name: &str, encoding: &str, accepts: &str) -> Answer {
    let message = shop::request(name, None, None).into_inner().encode_to_vec();
    let frame = raw::frame(u8::from(encoding != "identity"), &pack(encoding, &message));
    let mut headers = vec![("grpc-encoding", encoding)];
    if !accepts.is_empty() {
        headers.push(("grpc-accept-encoding", accepts));
    }
    raw::post(shop, path, &headers, frame).await
}

/// A shop whose server compresses its responses with `sends`, and whose layer takes requests in any compression.
async fn shop(
    sends: &'static [CompressionEncoding],
    build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
) -> Shop {
    let server =
        |handler| sends.iter().fold(ShopServer::new(handler), |server, encoding| server.send_compressed(*encoding));
    Shop::around(|builder| build(accept_all(builder).store(MemoryStore::new())), server).await
}

const ALL: &[CompressionEncoding] =
    &[CompressionEncoding::Gzip, CompressionEncoding::Zstd, CompressionEncoding::Deflate];

fn long() -> String {
    "a long name ".repeat(200)
}

#[tokio::test]
async fn of_a_replay_is_one_that_its_caller_accepts_whatever_the_first_call_used() {
    let accepted = [
        ("", "identity"),
        ("identity", "identity"),
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("deflate", "deflate"),
        ("br", "identity"),
        ("identity, br ,zstd,gzip", "zstd"),
    ];
    let mut started = 0;
    for sends in [&[], &ALL[..1], ALL] {
        let shop = shop(sends, |builder| builder).await;
        for sent in ENCODINGS {
            for (accepts, encoding) in accepted {
                let case = format!("{sends:?} {sent} {accepts:?}");
                let shop = shop.with_new_key();
                let first = call(&shop, CREATE, &long(), sent, accepts).await;
                let can = match sends.len() {
                    0 => encoding == "identity",
                    1 => ["identity", "gzip"].contains(&encoding),
                    _ => true,
                };
                let first_encoding = match (can, accepts.contains("gzip")) {
                    (true, _) => encoding,
                    (false, true) if sends.len() == 1 => "gzip",
                    (false, _) => "identity",
                };
                let (encoded, order) = message(&first);
                assert_eq!(encoded, first_encoding, "{case}: the handler's own server decides");
                assert!(!first.headers.contains_key("idempotent-replayed"), "{case}");
                let reply = CreateOrderReply::decode(order.as_slice()).expect("an order");
                assert_eq!(reply.order.expect("an order").name, long(), "{case}");

                for (accepts, encoding) in accepted {
                    let replay = call(&shop, CREATE, &long(), "identity", accepts).await;
                    assert_eq!(replay.headers["idempotent-replayed"], "true", "{case}");
                    assert_eq!(message(&replay), (encoding, order.clone()), "{case}, then {accepts:?}");
                }
            }
        }
        started += shop.handler.started();
    }
    assert_eq!(started, 3 * ENCODINGS.len() * accepted.len());
}

#[tokio::test]
async fn of_a_request_is_refused_as_without_a_key_unless_it_is_accepted() {
    // A server that takes no compressed requests, and a layer that is not told otherwise.
    let bare = Shop::around(|builder| builder.store(MemoryStore::new()), ShopServer::new).await;
    let zstd = |handler| ShopServer::new(handler).accept_compressed(CompressionEncoding::Zstd);
    let accepts_zstd = |builder: IdempotencyLayerBuilder| {
        builder.store(MemoryStore::new()).accept_compressed(layer::CompressionEncoding::Zstd)
    };
    let some = Shop::around(accepts_zstd, zstd).await;
    for (shop, encoding, accepted) in [(&bare, "gzip", None), (&bare, "zstd", None), (&some, "gzip", Some("zstd"))] {
        let without_key = call(&shop.with_key(None), CREATE, &long(), encoding, "").await;
        assert_eq!(without_key.status().code(), Code::Unimplemented, "{encoding}: the server refuses it");
        let with_key = call(shop, CREATE, &long(), encoding, "").await;
        assert_rejected(&with_key.status(), Code::Unimplemented, Reason::RequestMalformed);
        let told = with_key.headers["grpc-accept-encoding"].to_str().expect("names");
        assert_eq!(told, accepted.unwrap_or("identity"), "{encoding}");
        assert_eq!(shop.handler.started(), 0, "{encoding}");
        // Nothing was reserved.
        let first = call(&shop.with_key(shop.key), CREATE, &long(), accepted.unwrap_or("identity"), "").await;
        assert_eq!(first.status().code(), Code::Ok, "{encoding}: {:?}", first.status());
        if accepted.is_none() {
            let replay = call(shop, CREATE, &long(), encoding, "").await;
            assert_rejected(&replay.status(), Code::Unimplemented, Reason::RequestMalformed);
            break;
        }
    }
}

#[tokio::test]
async fn is_understood_by_tonics_clients() {
    let shop = shop(ALL, |builder| builder).await;
    let plain = shop.create(&long()).await.expect("the first call");
    for encoding in ALL {
        let mut client = shop.client.clone().send_compressed(*encoding).accept_compressed(*encoding);
        let replay = client.create_order(shop::request(&long(), shop.user, shop.key)).await.map(Seen::of);
        replay.expect("a replay").assert_replays("processing", &plain);
    }
    assert_eq!(shop.handler.started(), 1);
}

#[tokio::test]
async fn of_a_replay_starts_at_the_configured_size() {
    let first = shop(&[], |builder| builder).await;
    let size = message(&call(&first, CREATE, &long(), "identity", "").await).1.len();
    for (from, encoding) in [(0, "gzip"), (size, "gzip"), (size + 1, "identity"), (usize::MAX, "identity")] {
        let shop = shop(ALL, |builder| builder.compress_replays_from(from)).await;
        assert_eq!(
            message(&call(&shop, CREATE, &long(), "identity", "gzip").await).0,
            "gzip",
            "the setting is for replays"
        );
        assert_eq!(message(&call(&shop, CREATE, &long(), "identity", "gzip").await).0, encoding, "from {from}");
    }
    // The default is a kibibyte.
    for (length, encoding) in [(900, "identity"), (1024, "gzip")] {
        let (shop, name) = (first.with_new_key(), "a".repeat(length));
        call(&shop, CREATE, &name, "identity", "").await;
        assert_eq!(message(&call(&shop, CREATE, &name, "identity", "gzip").await).0, encoding, "{length}");
    }
}

#[tokio::test]
async fn is_left_out_if_it_would_not_shrink_the_message() {
    let shop = shop(&[], |builder| builder.compress_replays_from(0)).await;
    for replayed in [false, true] {
        for encoding in ENCODINGS {
            let answer = call(&shop, TOUCH, "a", "identity", encoding).await;
            assert_eq!(message(&answer), ("identity", vec![]), "{encoding} {replayed}");
        }
    }
}

#[tokio::test]
async fn of_the_handlers_response_does_not_prevent_redaction() {
    for sent in ENCODINGS {
        let shop = shop(ALL, |builder| builder.compress_replays_from(0)).await;
        let first = call(&shop, PAY, "a", "identity", sent).await;
        let (encoding, first) = message(&first);
        assert_eq!(encoding, sent);
        let first = PayReply::decode(first.as_slice()).expect("a payment");
        assert_eq!((first.secret.as_str(), first.receipts[0].secret.as_str()), ("hidden", "hidden"));
        let (_, replay) = message(&call(&shop, PAY, "a", "identity", sent).await);
        let replay = PayReply::decode(replay.as_slice()).expect("a payment");
        assert_eq!((replay.secret.as_str(), replay.receipts[0].secret.as_str()), ("", ""), "{sent}: redacted");
        assert_eq!(replay.payment_id, first.payment_id);
    }
}

#[tokio::test]
async fn does_not_make_a_response_small_enough_to_store() {
    for sent in ENCODINGS {
        let shop = shop(ALL, |builder| builder.max_response_bytes(1000)).await;
        let first = call(&shop, CREATE, &long(), "identity", sent).await;
        let (encoding, first) = message(&first);
        assert_eq!(encoding, sent);
        let status = call(&shop, CREATE, &long(), "identity", sent).await.status();
        assert_rejected(&status, Code::FailedPrecondition, Reason::NotStored);
        let details = tonic_types::StatusExt::get_details_error_info(&status).expect("an ErrorInfo");
        let order = CreateOrderReply::decode(first.as_slice()).expect("a reply").order.expect("an order");
        assert_eq!(details.metadata["resource_id"], order.id, "{sent}");
    }
}

#[tokio::test]
async fn of_a_waiters_response_is_one_that_the_waiter_accepts() {
    let wait = |builder: IdempotencyLayerBuilder| {
        builder.adjust_procedures(|procedure| procedure.on_in_progress(InProgressPolicy::Wait))
    };
    let shop = Arc::new(shop(ALL, wait).await);
    let name = format!("hold and {}", long());
    let mut calls = JoinSet::new();
    for accepts in ENCODINGS.into_iter().chain(ENCODINGS) {
        let (shop, name) = (Arc::clone(&shop), name.clone());
        calls.spawn(async move { (accepts, call(&shop, CREATE, &name, "identity", accepts).await) });
    }
    until("the handler runs", async || shop.handler.started() == 1).await;
    shop.handler.open(1);
    let answers = calls.join_all().await;
    let (_, order) = message(&answers[0].1);
    for (accepts, answer) in &answers {
        assert_eq!(message(answer), (*accepts, order.clone()));
    }
    assert_eq!(shop.handler.started(), 1);
}
