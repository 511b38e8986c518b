//! Requests that are not gRPC messages: each is refused, runs no handler and reserves nothing.

use std::io;

use http_body::Frame;
use http_body_util::StreamBody;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::prelude::*;
use crate::{compression::pack, harness::accept_all, raw, waiting::arrivals};

/// The largest request that the shop takes, in bytes.
const LIMIT: usize = 64 << 10;

/// The unpacked size of a decompression bomb, in bytes: eight times the default limit.
const BOMB: usize = 32 << 20;

const COMPRESSED: [&str; 3] = ["gzip", "zstd", "deflate"];

async fn shop() -> Shop {
    Shop::with(|builder| accept_all(builder).store(MemoryStore::new()).max_request_bytes(LIMIT)).await
}

fn good() -> Vec<u8> {
    shop::request("a", None, None).into_inner().encode_to_vec()
}

/// The value of `grpc-encoding`, if it is sent.
type Encoding = Option<&'static str>;

fn headers(encoding: Encoding) -> Vec<(&'static str, &'static str)> {
    encoding.map(|encoding| ("grpc-encoding", encoding)).into_iter().collect()
}

/// Asserts that the key was not reserved: the next call with it is a first call.
async fn assert_free(shop: &Shop, case: &str) {
    assert_eq!(shop.handler.started(), 0, "{case}");
    let answer = raw::post(shop, CREATE, &[], raw::frame(0, &good())).await;
    assert_eq!(answer.status().code(), Code::Ok, "{case}: {:?}", answer.status());
    assert!(!answer.headers.contains_key("idempotent-replayed"), "{case}");
    assert_eq!(shop.handler.started(), 1, "{case}");
}

async fn assert_refused(case: &str, encoding: Encoding, body: Vec<u8>, code: Code, reason: Reason) -> raw::Answer {
    let shop = shop().await;
    let answer = raw::post(&shop, CREATE, &headers(encoding), body).await;
    let status = answer.status();
    assert_eq!((status.code(), Reason::of(&status)), (code, Some(reason)), "{case}: {status:?}");
    assert!(answer.body.is_empty() && answer.trailers.is_empty(), "{case}: an error is trailers-only");
    assert_free(&shop, case).await;
    answer
}

#[tokio::test]
async fn refuses_a_malformed_frame() {
    let (frame, good) = (raw::frame(0, &good()), good());
    let cut = |by: usize| frame[..frame.len() - by].to_vec();
    let with = |more: &[u8]| [frame.as_slice(), more].concat();
    let lying = |length: u32| [[0].as_slice(), &length.to_be_bytes(), &good].concat();
    let flagged = |flag: u8| raw::frame(flag, &good);
    let rows = [
        ("no message", None, vec![], Code::Unimplemented),
        ("a second message", None, with(&frame), Code::Unimplemented),
        ("a second, empty message", None, with(&[0; 5]), Code::Unimplemented),
        ("a second message that is cut off", None, with(&frame[..7]), Code::Unimplemented),
        ("a second message with an unknown flag", None, with(&flagged(2)), Code::Internal),
        ("a header that is cut off", None, vec![0, 0, 0], Code::Internal),
        ("a message that is cut off", None, cut(1), Code::Internal),
        ("a header alone", None, cut(good.len()), Code::Internal),
        ("a length that is too long", None, lying(good.len() as u32 + 1), Code::Internal),
        ("a length that is too long by far", None, lying(LIMIT as u32), Code::Internal),
        ("a length that is too short", None, lying(good.len() as u32 - 1), Code::Internal),
        ("more bytes than a message", None, with(b"abc"), Code::Internal),
        ("flag 2", None, flagged(2), Code::Internal),
        ("the flag of gRPC-Web's trailers", None, flagged(0x80), Code::Internal),
        ("flag 255", None, flagged(255), Code::Internal),
        ("compressed, without grpc-encoding", None, flagged(1), Code::Internal),
        ("compressed, with grpc-encoding identity", Some("identity"), flagged(1), Code::Internal),
        ("a field that is cut off", None, raw::frame(0, b"\x0a\x05a"), Code::Internal),
        ("a text that is not UTF-8", None, raw::frame(0, b"\x0a\x01\xff"), Code::Internal),
        ("a tag without an end", None, raw::frame(0, &[0xff; 11]), Code::Internal),
        ("a wire type that does not exist", None, raw::frame(0, b"\x0e"), Code::Internal),
    ];
    for (case, encoding, body, code) in rows {
        assert_refused(case, encoding, body, code, Reason::RequestMalformed).await;
    }
}

#[tokio::test]
async fn refuses_an_encoding_that_is_not_accepted() {
    for encoding in ["br", "snappy", "GZIP", "gzip,zstd", ""] {
        // Also if the message is not compressed.
        for flag in [0, 1] {
            let (case, body) = (format!("{encoding}, flag {flag}"), raw::frame(flag, &good()));
            let answer =
                assert_refused(&case, Some(encoding), body, Code::Unimplemented, Reason::RequestMalformed).await;
            assert_eq!(answer.headers["grpc-accept-encoding"], "gzip,zstd,deflate", "what is enabled");
        }
    }
}

#[tokio::test]
async fn refuses_a_message_that_cannot_be_decompressed() {
    for encoding in COMPRESSED {
        let packed = pack(encoding, &good());
        let mut flipped = packed.clone();
        if let Some(byte) = flipped.first_mut() {
            *byte ^= 0xff;
        }
        for (case, message) in [
            ("plain", good()),
            ("nothing", vec![]),
            ("cut off", packed[..packed.len() - 3].to_vec()),
            ("flipped", flipped),
        ] {
            let (case, body) = (format!("{encoding} {case}"), raw::frame(1, &message));
            assert_refused(&case, Some(encoding), body, Code::Internal, Reason::RequestMalformed).await;
        }
        // It can be decompressed, but not decoded.
        let body = raw::frame(1, &pack(encoding, b"\x0a\x05a"));
        assert_refused(encoding, Some(encoding), body, Code::Internal, Reason::RequestMalformed).await;
    }
}

#[tokio::test]
async fn refuses_a_message_whose_content_or_header_exceeds_the_limit() {
    let large = |length: u32| [[0].as_slice(), &length.to_be_bytes(), &good()].concat();
    let fits = |more: usize| {
        let mut request = shop::request("a", None, None).into_inner();
        request.padding = vec![7; LIMIT];
        let over = request.encoded_len() - LIMIT;
        request.padding.truncate(LIMIT - over + more);
        request.encode_to_vec()
    };
    assert_eq!((fits(0).len(), fits(1).len()), (LIMIT, LIMIT + 1));
    let rows = [
        ("one byte more", None, raw::frame(0, &fits(1))),
        ("one byte more, by its header", None, large(LIMIT as u32 + 1)),
        ("four gigabytes, by its header", None, large(u32::MAX)),
        (
            "four gigabytes, compressed, by its header",
            Some("gzip"),
            [[1, 255, 255, 255, 255].as_slice(), &good()].concat(),
        ),
    ];
    for (case, encoding, body) in rows {
        assert_refused(case, encoding, body, Code::ResourceExhausted, Reason::RequestTooLarge).await;
    }
    for encoding in COMPRESSED {
        let body = raw::frame(1, &pack(encoding, &fits(1)));
        assert_refused(encoding, Some(encoding), body, Code::ResourceExhausted, Reason::RequestTooLarge).await;
    }
    // A message of exactly the limit is taken, and any message without a key.
    let shop = shop().await;
    let answer = raw::post(&shop.with_key(None), CREATE, &[], raw::frame(0, &fits(1))).await;
    assert_eq!(answer.status().code(), Code::Ok);
    assert_eq!(raw::post(&shop, CREATE, &[], raw::frame(0, &fits(0))).await.status().code(), Code::Ok);
}

#[tokio::test]
async fn refuses_a_decompression_bomb_or_a_message_that_is_much_larger_than_it_is_compressed() {
    let shop = Shop::with(|builder| accept_all(builder).store(MemoryStore::new())).await;
    // Below the limit for any message, and far below it when it is compressed. A small message may be.
    let of_zeros = |length| CreateOrderRequest { padding: vec![0; length], ..Default::default() }.encode_to_vec();
    for encoding in COMPRESSED {
        let post = async |shop: &Shop, message: &[u8]| {
            let packed = pack(encoding, message);
            assert!(packed.len() < 1 << 20, "{encoding}: {} bytes are below the limit", packed.len());
            raw::post(shop, CREATE, &headers(Some(encoding)), raw::frame(1, &packed)).await.status()
        };
        for (message, says) in [(vec![0; BOMB], ""), (of_zeros(3 << 20), "128 times as large")] {
            let status = post(&shop, &message).await;
            assert_rejected(&status, Code::ResourceExhausted, Reason::RequestTooLarge);
            assert!(status.message().contains(says), "{encoding}: {status:?}");
        }
        let shop = shop.with_new_key();
        assert_eq!(post(&shop, &of_zeros(1_000_000)).await.code(), Code::Ok, "{encoding}");
        assert_eq!(
            raw::post(&shop.with_new_key(), CREATE, &[], raw::frame(0, &good())).await.status().code(),
            Code::Ok
        );
    }
    assert_eq!(shop.handler.started(), 2 * COMPRESSED.len());
    let answer = raw::post(&shop, CREATE, &[], raw::frame(0, &good())).await;
    assert!(!answer.headers.contains_key("idempotent-replayed"), "the key is free: {answer:?}");
}

#[tokio::test]
async fn refuses_a_message_in_an_order_made_to_be_costly() {
    let shop = Shop::with(|builder| builder.store(MemoryStore::new())).await;
    // The name and the padding in turn, both empty, half a million times each.
    let message = b"\x0a\0\x1a\0".repeat(500_000);
    let status = raw::post(&shop, CREATE, &[], raw::frame(0, &message)).await.status();
    assert_rejected(&status, Code::ResourceExhausted, Reason::RequestTooLarge);
    assert!(status.message().contains("too much memory or time"), "{status:?}");
    assert_free(&shop, "after the message").await;
    // A million entries of a map with one key are one entry.
    let shop = shop.with_new_key();
    let answer = raw::post(&shop, CREATE, &[], raw::frame(0, &b"\x12\0".repeat(1_000_000))).await;
    assert_eq!(answer.status().code(), Code::Ok);
    let one = raw::post(&shop, CREATE, &[], raw::frame(0, b"\x12\0")).await;
    assert_eq!(one.headers["idempotent-replayed"], "true", "it is the same request");
}

/// A body that is sent piece by piece, and its sender.
fn pieces() -> (mpsc::UnboundedSender<io::Result<Frame<Bytes>>>, Body) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Body::new(StreamBody::new(UnboundedReceiverStream::new(receiver))))
}

fn piece(bytes: impl Into<Bytes>) -> io::Result<Frame<Bytes>> {
    Ok(Frame::data(bytes.into()))
}

#[tokio::test]
async fn refuses_a_malformed_start_before_the_end_arrives() {
    let frame = raw::frame(0, &good());
    for (case, start, code) in [
        ("too large", vec![0, 255, 255, 255, 255], Code::ResourceExhausted),
        ("an unknown flag", vec![3, 0, 0, 0, 1], Code::Internal),
        ("a second message", [frame.as_slice(), &frame].concat(), Code::Unimplemented),
    ] {
        let shop = shop().await;
        let (sender, body) = pieces();
        for byte in start {
            sender.send(piece(vec![byte])).expect("it is read");
        }
        let request = raw::request(&shop, CREATE, &[], body);
        let answer = timeout(Duration::from_secs(30), raw::send(&shop, request)).await;
        let status = answer.expect("it does not wait for the end").expect("an answer").status();
        assert_eq!(status.code(), code, "{case}");
        drop(sender);
        assert_free(&shop, case).await;
    }
}

#[tokio::test]
async fn takes_a_message_that_arrives_in_pieces() {
    let shop = shop().await;
    let (sender, body) = pieces();
    for byte in raw::frame(0, &good()) {
        sender.send(piece(vec![byte])).expect("it is read");
        sender.send(piece(vec![])).expect("it is read");
    }
    drop(sender);
    let answer = raw::send(&shop, raw::request(&shop, CREATE, &[], body)).await.expect("an answer");
    assert_eq!(answer.status().code(), Code::Ok);
    assert_eq!(shop.handler.finished(), 1);
}

/// The parts of a message that have arrived when its client gives up. The last is complete, but its stream has not
/// ended.
fn beginnings() -> [(&'static str, Vec<u8>); 3] {
    let frame = raw::frame(0, &good());
    [("in its header", frame[..3].to_vec()), ("in its message", frame[..7].to_vec()), ("before its end", frame)]
}

#[tokio::test]
async fn reserves_nothing_if_the_message_breaks_off() {
    for (case, start) in beginnings() {
        for resets in [true, false] {
            let (arrived, caller) = arrivals();
            let build = |builder: IdempotencyLayerBuilder| builder.store(MemoryStore::new()).caller_resolver(caller);
            let shop = Arc::new(Shop::with(build).await);
            let (sender, body) = pieces();
            sender.send(piece(start.clone())).expect("it is read");
            let sending = Arc::clone(&shop);
            let sent =
                tokio::spawn(async move { raw::send(&sending, raw::request(&sending, CREATE, &[], body)).await });
            until("the layer has the call", async || arrived.load(Ordering::SeqCst) == 1).await;
            if resets {
                sender.send(Err(io::Error::other("the client gives up"))).expect("it is read");
                sent.await.expect("no panic").expect_err(case);
            } else {
                sent.abort();
                assert!(sent.await.expect_err(case).is_cancelled(), "{case}: it ended before it was aborted");
            }
            drop(sender);
            assert_free(&shop, case).await;
        }
    }
}
