//! Compressed messages, and messages that are too large.

use std::io::Read;

use flate2::read::{GzDecoder, GzEncoder, ZlibDecoder, ZlibEncoder};

use crate::http::{Call, Version};
use crate::prelude::*;

fn compress(encoding: &str, message: &[u8]) -> Vec<u8> {
    let best = flate2::Compression::best();
    all(match encoding {
        "deflate" => Box::new(ZlibEncoder::new(message, best)),
        "gzip" => Box::new(GzEncoder::new(message, best)),
        _ => Box::new(zstd::stream::read::Encoder::new(message, 3).expect("zstd")),
    })
}

fn decompress(encoding: &str, message: &[u8]) -> Vec<u8> {
    all(match encoding {
        "deflate" => Box::new(ZlibDecoder::new(message)),
        "gzip" => Box::new(GzDecoder::new(message)),
        _ => Box::new(zstd::Decoder::new(message).expect("zstd")),
    })
}

fn all(mut reader: Box<dyn Read + '_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("it is whole");
    bytes
}

/// Without it, the first part of a message may pass for all of it.
#[track_caller]
fn assert_says_its_length(outcome: &Outcome, told: &str) {
    let length = outcome.answer.body.len().to_string();
    assert_eq!(outcome.answer.header("content-length"), Some(&*length), "{told}");
}

#[tokio::test]
async fn is_accepted_and_applied_and_does_not_change_the_request() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for protocol in [Protocol::Connect, Protocol::ConnectJson] {
            let message = protocol.script("padded");
            let key = Uuid::new_v4();
            let plain = server.create(protocol, key, &message).await;
            assert_eq!(plain.answer.header("content-encoding"), None);
            assert_says_its_length(&plain, &format!("{kind:?} {protocol:?}"));
            for encoding in ["deflate", "gzip", "zstd"] {
                let told = format!("{kind:?} {protocol:?} {encoding}");
                let call = server.call(protocol, "Create", Some(key), b"");
                let call = call.header("content-encoding", encoding).header("accept-encoding", encoding);
                let replay = server.send(protocol, call.body(compress(encoding, &message))).await;
                assert!(replay.is_replay(), "{told} {replay:?}");
                assert_eq!(replay.answer.header("content-encoding"), Some(encoding), "{told}");
                assert_says_its_length(&replay, &told);
                let replayed = decompress(encoding, replay.message());
                match protocol.is_json() {
                    true => {
                        let [one, other] = [plain.message().as_ref(), &replayed]
                            .map(|json| serde_json::from_slice::<serde_json::Value>(json).expect("JSON"));
                        assert_eq!(one, other, "{told}");
                    }
                    false => assert_eq!(plain.message().as_ref(), replayed, "{told}"),
                }
            }
        }
        assert_eq!(server.desk.started(), 2);
    }
}

#[tokio::test]
async fn of_a_replay_over_grpc_web_is_one_that_its_caller_accepts() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let (key, message) = (Uuid::new_v4(), text(1, "padded"));
        let first = server.create(Protocol::Connect, key, &message).await;
        for encoding in ["deflate", "gzip", "zstd"] {
            let call = server.call(Protocol::GrpcWeb, "Create", Some(key), &message);
            let answer = call.header("grpc-accept-encoding", encoding).send(server.address).await;
            assert_eq!(answer.header("grpc-encoding"), Some(encoding), "{kind:?}");
            let (header, rest) = answer.body.split_first_chunk::<5>().expect("a frame");
            let [flag, length @ ..] = *header;
            assert_eq!(flag, 1, "{kind:?}: compressed");
            let compressed = &rest[..u32::from_be_bytes(length) as usize];
            assert_eq!(decompress(encoding, compressed), first.message().as_ref(), "{kind:?} {encoding}");
        }
        assert_eq!(server.desk.started(), 1);
    }
}

#[tokio::test]
async fn does_not_expand_a_message_beyond_the_limit() {
    let bomb = vec![b' '; 16 << 20];
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for (protocol, encoding) in
            [(Protocol::Connect, "gzip"), (Protocol::ConnectJson, "zstd"), (Protocol::Connect, "deflate")]
        {
            let key = Uuid::new_v4();
            let call = server.call(protocol, "Create", Some(key), b"").header("content-encoding", encoding);
            let refused = server.send(protocol, call.body(compress(encoding, &bomb))).await;
            assert_eq!(refused.error().code(), Code::ResourceExhausted, "{kind:?} {refused:?}");
            assert_eq!(refused.answer.status, 429);
            let call = server.call(protocol, "Create", Some(key), b"").header("content-encoding", encoding);
            let broken = server.send(protocol, call.body("this is not compressed")).await;
            assert_eq!(broken.error().code(), Code::InvalidArgument, "{kind:?} {broken:?}");
            let first = server.create(Protocol::Grpc, key, b"").await;
            first.message();
            assert!(!first.is_replay(), "{kind:?}");
        }
    }
}

/// Below the limit for any message, and far below it when it is compressed.
#[tokio::test]
async fn does_not_expand_a_message_beyond_its_ratio() {
    let zeros = bytes(16, &vec![0; 3 << 20]);
    let blank = |size: usize| {
        let mut json = b"{}".to_vec();
        json.resize(size, b' ');
        json
    };
    let small = bytes(16, &vec![0; 1_000_000]);
    let server = Server::new(Kind::Tonic).await;
    for (protocol, encoding, large, small) in [
        (Protocol::Connect, "gzip", &zeros, &small),
        (Protocol::ConnectJson, "zstd", &blank(3 << 20), &blank(1_000_000)),
        (Protocol::Connect, "deflate", &zeros, &small),
    ] {
        let call = || server.call(protocol, "Create", Some(Uuid::new_v4()), b"").header("content-encoding", encoding);
        let refused = server.send(protocol, call().body(compress(encoding, large))).await;
        let error = refused.error();
        assert_eq!(error.code(), Code::ResourceExhausted, "{encoding} {refused:?}");
        assert!(error.message().contains("128 times as large"), "{encoding} {refused:?}");
        server.send(protocol, call().body(compress(encoding, small))).await.message();
    }
}

/// A message of exactly the limit fits, whatever its protocol puts around it.
#[tokio::test]
async fn is_not_needed_for_the_limit_to_apply() {
    const LIMIT: usize = 4 << 20;
    let binary = |size: usize| {
        let overhead = bytes(16, &vec![0; LIMIT]).len() - LIMIT;
        bytes(16, &vec![7; size - overhead])
    };
    let json = |size: usize| {
        let mut json = b"{}".to_vec();
        json.resize(size, b' ');
        json
    };
    over_each(Server::new, async |server, protocol, told| {
        for (size, fits) in [(LIMIT, true), (LIMIT + 1, false)] {
            let message = if protocol.is_json() { json(size) } else { binary(size) };
            assert_eq!(message.len(), size);
            let call = server.call(protocol, "Create", Some(Uuid::new_v4()), &message);
            // Over HTTP/1.1 a server that stops reading may close the connection before the client has read the answer.
            let outcome = server.send(protocol, Call { version: Version::Two, ..call }).await;
            match fits {
                true => drop(outcome.message()),
                false => assert_eq!(outcome.error().code(), Code::ResourceExhausted, "{told}"),
            }
        }
    })
    .await;
}

/// A caller that names an encoding which the server lacks gets this error even before it compresses a message.
#[tokio::test]
async fn of_an_unknown_encoding_is_unimplemented_with_a_key_and_without() {
    over_each(Server::new, async |server, protocol, told| {
        let header = if protocol.is_connect() { "content-encoding" } else { "grpc-encoding" };
        for key in [None, Some(Uuid::new_v4())] {
            for (encoding, code) in [("br", Code::Unimplemented), ("", Code::Unimplemented), ("identity", Code::Ok)] {
                let call = server.call(protocol, "Create", key, protocol.empty()).header(header, encoding);
                let outcome = server.send(protocol, call).await;
                let seen = outcome.result.as_ref().map_or_else(|error| error.code(), |_| Code::Ok);
                assert_eq!(seen, code, "{told} {key:?} {encoding:?}: {outcome:?}");
            }
        }
    })
    .await;
}
