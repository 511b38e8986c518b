//! A replay is the first response, in the encoding of the caller.

use crate::prelude::*;

/// A request with a value of each kind in protobuf's JSON form. The response returns it.
const ITEM: &str = r#"{
    "double": "NaN", "float": 7.038531e-26, "int32": -1, "int64": "-9007199254740993", "uint32": 1, "uint64": "18446744073709551615",
    "sint32": -1, "sint64": "-1", "fixed32": 1, "fixed64": "1", "sfixed32": -1, "sfixed64": "-1", "bool": true,
    "string": "\u2713", "bytes": "+//+AQ==", "color": "COLOR_BLUE", "optionalInt64": "0", "choiceNumber": "0",
    "packedNumbers": [1, 2], "unpackedNumbers": [3], "doubles": [0.5, "-Infinity"], "strings": [""],
    "colors": ["COLOR_RED", 77], "parts": [{}, {"partName": "p"}], "byString": {"a": "1"},
    "byInt32": {"-1": {"amount": "5"}}, "byBool": {"true": "7"}, "part": {"inner": {"amount": "2"}}, "anotherName": "x",
    "timestamp": "2023-11-14T22:13:20.500Z", "duration": "-1.500s", "fieldMask": "part.partName,int64",
    "struct": {"a": 1.5, "b": null}, "value": [true], "listValue": ["x", {}], "empty": {},
    "any": {"@type": "type.googleapis.com/catalog.v1.Part", "partName": "p"},
    "boolValue": false, "int64Value": "-1", "stringValue": "", "bytesValue": "+/8="
}"#;

#[tokio::test]
async fn in_json_has_every_field_in_its_json_form() {
    let expected: serde_json::Value = serde_json::from_str(ITEM).expect("JSON");
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let key = Uuid::new_v4();
        for protocol in kind.protocols().iter().copied().filter(|protocol| protocol.is_json()) {
            let outcome = server.create(protocol, key, ITEM.as_bytes()).await;
            let created: serde_json::Value = serde_json::from_slice(outcome.message()).expect("JSON");
            assert_eq!(created["item"], expected, "{kind:?} {protocol:?}");
            assert_eq!(created["id"].as_str().map(str::len), Some(36));
        }
    }
}

#[tokio::test]
async fn in_json_is_the_same_text() {
    let entries: Vec<_> = (0..40).map(|entry| format!(r#""{entry}": "x""#)).collect();
    let json = format!(r#"{{"byString": {{{0}}}, "bySint64": {{{0}}}, "struct": {{{0}}}}}"#, entries.join(", "));
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let key = Uuid::new_v4();
        let first = server.create(Protocol::ConnectJson, key, json.as_bytes()).await;
        for _ in 0..3 {
            let replay = server.create(Protocol::ConnectJson, key, json.as_bytes()).await;
            assert_eq!(replay.message(), first.message(), "{kind:?}");
        }
    }
}

/// The status and the replay mark are the layer's; all other metadata is the handler's.
#[tokio::test]
async fn is_marked_as_a_replay() {
    over_each(Server::new, async |server, protocol, told| {
        let key = Uuid::new_v4();
        server.create(Protocol::Grpc, key, b"").await.message();
        let replay = server.create(protocol, key, protocol.empty()).await;
        replay.message();
        assert_eq!(replay.answer.header("idempotent-replayed"), Some("true"), "{told}");
        assert_eq!(replay.answer.header("idempotency-status"), Some("completed"), "{told}");
        assert_eq!(replay.answer.header("catalog-region"), Some("here"), "{told}");
        let left = replay.answer.header("idempotency-expires").and_then(|left| left.parse().ok());
        assert!(left.is_some_and(|left: u64| (86_000..86_400).contains(&left)), "{told}: {left:?}");
    })
    .await;
}

#[tokio::test]
async fn from_the_cache_equals_one_from_the_store() {
    for cache in [None, Some(0)] {
        let server = async |kind| {
            Server::with(kind, |it| cache.into_iter().fold(it, |it, bytes| it.replay_cache_bytes(bytes))).await
        };
        over_each(server, async |server, protocol, told| {
            let (key, before) = (Uuid::new_v4(), server.desk.finished());
            assert!(!server.create(protocol, key, protocol.empty()).await.is_replay());
            let mut replays = Vec::new();
            for _ in 0..2 {
                let outcome = server.create(protocol, key, protocol.empty()).await;
                assert!(outcome.is_replay(), "{told}");
                let mut answer = outcome.answer;
                answer.headers.remove("date");
                answer.headers.remove("idempotency-expires");
                replays.push((answer.status, answer.headers, answer.body, answer.trailers));
            }
            assert_eq!(replays[1], replays[0], "{told}");
            assert_eq!(server.desk.finished(), before + 1, "{told}");
        })
        .await;
    }
}
