//! Keys on procedures that are not opted in, in each protocol.

use tonic_idempotency::policy::UnprotectedKeyPolicy;

use crate::prelude::*;

async fn refusing(kind: Kind) -> Server {
    Server::with(kind, |builder| builder.on_unprotected_key(UnprotectedKeyPolicy::Refuse)).await
}

fn empty(protocol: Protocol) -> &'static [u8] {
    if protocol.is_json() { b"{}" } else { b"" }
}

#[tokio::test]
async fn are_refused_in_the_protocol_of_the_call() {
    for kind in Kind::BOTH {
        let server = refusing(kind).await;
        for protocol in kind.protocols().iter().copied() {
            let told = format!("{kind:?} {protocol:?}");
            let started = server.desk.started();
            let call = |key| server.call(protocol, "Describe", key, empty(protocol));
            let outcome = server.send(protocol, call(Some(Uuid::new_v4()))).await;
            let status = outcome.error();
            assert_eq!(
                (status.code(), Reason::of(status)),
                (Code::InvalidArgument, Some(Reason::KeyUnsupported)),
                "{told}"
            );
            assert!(status.message().contains("without the idempotency-key header"), "{told}: {status:?}");
            let violations = status.get_details_bad_request().expect(&told).field_violations;
            assert_eq!(violations[0].field, "idempotency-key", "{told}");
            if protocol.is_connect() {
                assert_eq!(outcome.answer.status, 400, "{told}");
                let json: serde_json::Value = serde_json::from_slice(&outcome.answer.body).expect(&told);
                assert_eq!(json["code"], "invalid_argument", "{told}");
            }
            assert_eq!(server.desk.started(), started, "{told}");
            server.send(protocol, call(None)).await.message();
            let create = server.call(protocol, "Create", Some(Uuid::new_v4()), empty(protocol));
            server.send(protocol, create).await.message();
            assert_eq!(server.desk.started(), started + 2, "{told}");
        }
    }
}

#[tokio::test]
async fn are_passed_through_by_default() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for protocol in kind.protocols().iter().copied() {
            let call = server.call(protocol, "Describe", Some(Uuid::new_v4()), empty(protocol));
            server.send(protocol, call).await.message();
        }
        assert_eq!(server.desk.finished(), kind.protocols().len(), "{kind:?}");
    }
}

#[tokio::test]
async fn are_refused_on_a_get_over_connect() {
    for kind in Kind::BOTH {
        let server = refusing(kind).await;
        let get = server.call(Protocol::ConnectJson, "Describe", Some(Uuid::new_v4()), b"");
        let path = format!("{}?connect=v1&encoding=json&message=%7B%7D", get.path);
        let headers = get.headers.iter().filter(|(name, _)| *name != "content-type").cloned().collect();
        let outcome =
            server.send(Protocol::ConnectJson, crate::http::Call { method: Method::GET, path, headers, ..get }).await;
        assert_eq!(Reason::of(outcome.error()), Some(Reason::KeyUnsupported), "{kind:?} {outcome:?}");
        assert_eq!(outcome.answer.status, 400, "{kind:?}");
    }
}

/// A stream over Connect ends with a frame that has the error as JSON, under the HTTP status 200.
#[tokio::test]
async fn are_refused_on_a_stream_over_connect() {
    let server = refusing(Kind::Native).await;
    for (key, expected) in [(Some(Uuid::new_v4()), "IDEMPOTENCY_KEY_UNSUPPORTED"), (None, "")] {
        let call = server.call(Protocol::ConnectJson, "Watch", key, b"");
        let call = call.replace("content-type", "application/connect+json").body(framed(b"{}"));
        let answer = call.send(server.address).await;
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(text.contains("invalid_argument") && text.contains(expected), key.is_some(), "{text}");
    }
}
