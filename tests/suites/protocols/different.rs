//! Messages with the smallest difference are not the same request.

use crate::messages::{fixed64, joined, number};
use crate::prelude::*;

/// Pairs of different messages, in binary and in JSON.
fn pairs() -> Vec<[(Vec<u8>, &'static str); 2]> {
    vec![
        [(number(5, 1), r#"{"int64": "1"}"#), (number(5, 2), r#"{"int64": "2"}"#)],
        // Integers that a double cannot tell apart.
        [
            (number(7, u64::MAX), r#"{"uint64": "18446744073709551615"}"#),
            (number(7, u64::MAX - 1), r#"{"uint64": 18446744073709551614}"#),
        ],
        [
            (number(5, 9_007_199_254_740_993), r#"{"int64": 9007199254740993}"#),
            (number(5, 9_007_199_254_740_992), r#"{"int64": 9007199254740992}"#),
        ],
        [(number(5, 1), r#"{"int64": 1}"#), (number(7, 1), r#"{"uint64": 1}"#)],
        // A field that is present with its default, and an absent one.
        [(number(20, 0), r#"{"optionalInt64": 0}"#), (vec![], "{}")],
        [(bytes(50, &[]), r#"{"part": {}}"#), (vec![], r#"{"part": null}"#)],
        [(text(22, ""), r#"{"choiceText": ""}"#), (number(23, 0), r#"{"choiceNumber": 0}"#)],
        [(bytes(70, &[]), r#"{"boolValue": false}"#), (vec![], r#"{"boolValue": null}"#)],
        [(bytes(64, &number(1, 0)), r#"{"value": null}"#), (vec![], "{}")],
        // The order of a list matters; the order of a map does not.
        [(bytes(30, &[1, 2]), r#"{"packedNumbers": [1, 2]}"#), (bytes(30, &[2, 1]), r#"{"packedNumbers": [2, 1]}"#)],
        [
            (bytes(40, &joined([text(1, "a"), text(2, "")])), r#"{"byString": {"a": ""}}"#),
            (bytes(40, &joined([text(1, ""), text(2, "a")])), r#"{"byString": {"": "a"}}"#),
        ],
        [(fixed64(2, (-0.0_f64).to_bits()), r#"{"double": -0.0}"#), (vec![], r#"{"double": 0.0}"#)],
        [
            (fixed64(2, 1.0_f64.to_bits()), r#"{"double": 1}"#),
            (fixed64(2, 1.0_f64.to_bits() + 1), r#"{"double": 1.0000000000000002}"#),
        ],
        [(text(15, "a"), r#"{"string": "a"}"#), (text(15, "a\0"), r#"{"string": "a\u0000"}"#)],
        [(bytes(16, b"a"), r#"{"bytes": "YQ=="}"#), (bytes(16, b"b"), r#"{"bytes": "Yg=="}"#)],
        [
            (bytes(60, &number(2, 1)), r#"{"timestamp": "1970-01-01T00:00:00.000000001Z"}"#),
            (bytes(60, &[]), r#"{"timestamp": "1970-01-01T00:00:00Z"}"#),
        ],
    ]
}

#[tokio::test]
async fn messages_are_refused_over_every_protocol() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let mut wrong = Vec::new();
        for [one, other] in pairs() {
            for (index, protocol) in kind.protocols().iter().copied().enumerate() {
                let key = Uuid::new_v4();
                // The first call uses another protocol each time.
                let first = kind.protocols()[(index + 2) % kind.protocols().len()];
                let pick = |protocol: Protocol, message: &(Vec<u8>, &str)| match protocol.is_json() {
                    true => message.1.as_bytes().to_vec(),
                    false => message.0.clone(),
                };
                let before = server.desk.started();
                server.create(first, key, &pick(first, &one)).await.message();
                let second = server.create(protocol, key, &pick(protocol, &other)).await;
                let reason = second.result.as_ref().err().and_then(Reason::of);
                if reason != Some(Reason::KeyReused) {
                    wrong.push(format!("{kind:?}: {first:?} {}, {protocol:?} {}: {second:?}", one.1, other.1));
                }
                assert_eq!(server.desk.started() - before, 1);
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// A key belongs to one procedure, over every protocol.
#[tokio::test]
async fn procedures_are_refused_over_every_protocol() {
    over_each(Server::new, async |server, protocol, told| {
        let key = Uuid::new_v4();
        server.create(Protocol::Grpc, key, b"").await.message();
        let refused = server.send(protocol, server.call(protocol, "Settle", Some(key), protocol.empty())).await;
        assert_eq!(Reason::of(refused.error()), Some(Reason::KeyReused), "{told}");
    })
    .await;
}
