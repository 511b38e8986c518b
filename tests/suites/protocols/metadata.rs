//! Metadata of responses, in the place that each protocol has for it.

use crate::prelude::*;

#[tokio::test]
async fn of_a_first_response_is_in_the_headers() {
    over_each(Server::new, async |server, protocol, told| {
        for key in [None, Some(Uuid::new_v4())] {
            let outcome = server.send(protocol, server.call(protocol, "Create", key, protocol.empty())).await;
            let (told, headers) = (format!("{told} {key:?}"), &outcome.answer.headers);
            outcome.message();
            assert_eq!(headers["catalog-region"], "here", "{told}");
            let notes: Vec<_> = headers.get_all("catalog-note").iter().collect();
            assert_eq!(notes, ["one", "two"], "{told}");
            assert_eq!(headers["catalog-trace-bin"].as_bytes().trim_ascii_end(), b"AHRyYWNl/w", "{told}");
            let status = headers.get("idempotency-status").map(|status| status.to_str().expect("text"));
            assert_eq!(status, key.map(|_| "completed"), "{told}");
            assert!(!headers.contains_key("idempotent-replayed"), "{told}");
            assert_eq!(headers.contains_key("idempotency-expires"), key.is_some(), "{told}");
            if protocol.is_connect() {
                assert!(headers.keys().all(|name| !name.as_str().contains("grpc")), "{told}: {headers:?}");
            }
        }
    })
    .await;
}

/// Only `connectrpc`'s handlers can set trailers.
#[tokio::test]
async fn in_trailers_becomes_headers_with_a_prefix() {
    let server = Server::new(Kind::Native).await;
    for key in [None, Some(Uuid::new_v4())] {
        for protocol in [Protocol::Connect, Protocol::ConnectJson] {
            let outcome = server.send(protocol, server.call(protocol, "Create", key, protocol.empty())).await;
            assert_eq!(outcome.is_replay(), key.is_some() && protocol == Protocol::ConnectJson);
            assert_eq!(outcome.answer.header("trailer-catalog-trailer"), Some("last"), "{protocol:?} {key:?}");
        }
        let outcome = server.send(Protocol::Grpc, server.call(Protocol::Grpc, "Create", None, b"")).await;
        assert_eq!(outcome.answer.trailers["catalog-trailer"], "last");
    }
}
