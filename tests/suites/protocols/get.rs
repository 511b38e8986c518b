//! Calls with GET, for procedures without side effects.

use std::io::Write as _;

use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};

use crate::prelude::*;
use crate::{
    http::{Call, Version},
    protocol::path,
};

pub(crate) fn get(procedure: &str, query: &str) -> Call {
    Call {
        version: Version::One,
        method: Method::GET,
        path: format!("{}?{query}", path(procedure)),
        headers: Vec::new(),
        body: bytes::Bytes::new(),
    }
}

#[tokio::test]
async fn has_its_message_in_the_query() {
    let item = Item { string: "a ?>~".to_owned(), ..Item::default() };
    let binary = item.encode_to_vec();
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    zipped.write_all(br#"{"string": "a ?>~"}"#).expect("memory takes all");
    let zipped = zipped.finish().expect("memory takes all");
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for (json, query) in [
            (false, format!("connect=v1&encoding=proto&base64=1&message={}", URL_SAFE_NO_PAD.encode(&binary))),
            (false, format!("message={}&base64=1&encoding=proto", URL_SAFE.encode(&binary))),
            (false, format!("message={}&base64=1&encoding=proto", URL_SAFE.encode(&binary).replace('=', "%3D"))),
            (true, "encoding=json&message=%7B%22string%22%3A%22a%20%3F%3E~%22%7D&connect=v1".to_owned()),
            (true, "encoding=json&message=%7B%22string%22%3A%22a+%3F%3E~%22%7D".to_owned()),
            (true, format!("encoding=json&base64=1&message={}", URL_SAFE.encode(br#"{"string": "a ?>~"}"#))),
            (true, format!("encoding=json&compression=gzip&base64=1&message={}", URL_SAFE.encode(&zipped))),
        ] {
            let protocol = if json { Protocol::ConnectJson } else { Protocol::Connect };
            let outcome = server.send(protocol, get("Describe", &query)).await;
            assert_eq!(outcome.created().item.expect("one").string, item.string, "{kind:?} {query}");
            let content_type = if json { "application/json" } else { "application/proto" };
            assert_eq!(outcome.answer.header("content-type"), Some(content_type));
        }
    }
}

#[tokio::test]
async fn is_refused_for_a_procedure_with_side_effects() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for procedure in ["Create", "Settle", "Watch"] {
            for key in [None, Some(Uuid::new_v4())] {
                let mut call = get(procedure, "encoding=json&message=%7B%7D").header("user", server.user);
                if let Some(key) = key {
                    call = call.header("idempotency-key", key);
                }
                let answer = call.send(server.address).await;
                assert_eq!(answer.status, 405, "{kind:?} {procedure} {key:?} {answer:?}");
            }
        }
        assert_eq!(server.desk.started(), 0);
    }
}

#[tokio::test]
async fn is_refused_if_it_is_malformed() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for (query, status) in [
            ("encoding=json&message=%7B", 400),
            ("encoding=proto&base64=1&message=***", 400),
            ("encoding=proto&base64=1&message=KA", 400),
            ("encoding=xml&message=", 415),
            ("message=%7B%7D", 400),
            ("encoding=json&message=%7B%7D&connect=v2", 400),
            ("encoding=json&compression=br&base64=1&message=e30", 501),
        ] {
            let answer = get("Describe", query).send(server.address).await;
            // tonic answers INTERNAL to a message that it cannot decode.
            let status = if query.ends_with("KA") && kind == Kind::Tonic { 500 } else { status };
            assert!(answer.status == status, "{kind:?} {query}: {answer:?}");
        }
        assert_eq!(server.desk.started(), 0, "{kind:?}");
    }
}
