//! A native `connectrpc` service.

use crate::messages::rows;
use crate::prelude::*;

#[tokio::test]
async fn sees_the_protocol_of_a_call_without_a_key_and_grpc_of_one_with_a_key() {
    let server = Server::new(Kind::Native).await;
    for (protocol, natively) in [
        (Protocol::Grpc, "grpc"),
        (Protocol::GrpcJson, "grpc"),
        (Protocol::GrpcWeb, "grpc-web"),
        (Protocol::Connect, "connect"),
        (Protocol::ConnectJson, "connect"),
    ] {
        for (key, expected) in [(None, natively), (Some(Uuid::new_v4()), "grpc")] {
            let outcome = server.send(protocol, server.call(protocol, "Create", key, protocol.empty())).await;
            assert_eq!(outcome.created().seen.expect("seen").protocol, expected, "{protocol:?}");
        }
    }
}

/// The layer's JSON is the same as `connectrpc`'s.
#[tokio::test]
async fn answers_the_same_json_with_a_key_and_without() {
    let server = Server::new(Kind::Native).await;
    let mut wrong = Vec::new();
    // Two exceptions: `connectrpc` shows the contents of an `Any` only for registered types, and omits a negative zero.
    let differs = |name: &str| name.ends_with("in an Any") || name == "minus zero";
    for row in rows().into_iter().filter(|row| !differs(row.name)) {
        let mut answers = Vec::new();
        for key in [None, Some(Uuid::new_v4())] {
            let call = server.call(Protocol::ConnectJson, "Create", key, row.json[0].as_bytes());
            let outcome = server.send(Protocol::ConnectJson, call).await;
            answers.push(outcome.result.map(|message| {
                let mut created: serde_json::Value = serde_json::from_slice(&message).expect("JSON");
                created["item"].take()
            }));
        }
        if answers[0].as_ref().ok() != answers[1].as_ref().ok() {
            wrong.push(format!("{}: {answers:?}", row.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
