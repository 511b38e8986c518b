//! Keys on procedures that are not opted in, in each protocol.

use tonic_idempotency::policy::UnprotectedKeyPolicy;

use crate::get::get;
use crate::prelude::*;

async fn refusing(kind: Kind) -> Server {
    Server::with(kind, |builder| builder.on_unprotected_key(UnprotectedKeyPolicy::Refuse)).await
}

#[tokio::test]
async fn are_refused_in_the_protocol_of_the_call() {
    over_each(refusing, async |server, protocol, told| {
        let started = server.desk.started();
        let call = |key| server.call(protocol, "Describe", key, protocol.empty());
        let outcome = server.send(protocol, call(Some(Uuid::new_v4()))).await;
        let status = outcome.error();
        let refused = (status.code(), Reason::of(status));
        assert_eq!(refused, (Code::InvalidArgument, Some(Reason::KeyUnsupported)), "{told}");
        assert!(status.message().contains("without the idempotency-key header"), "{told}: {status:?}");
        let violations = status.get_details_bad_request().expect(told).field_violations;
        assert_eq!(violations[0].field, "idempotency-key", "{told}");
        if protocol.is_connect() {
            assert_eq!(outcome.answer.status, 400, "{told}");
            let json: Value = serde_json::from_slice(&outcome.answer.body).expect(told);
            assert_eq!(json["code"], "invalid_argument", "{told}");
        }
        assert_eq!(server.desk.started(), started, "{told}");
        server.send(protocol, call(None)).await.message();
        server.create(protocol, Uuid::new_v4(), protocol.empty()).await.message();
        assert_eq!(server.desk.started(), started + 2, "{told}");
    })
    .await;
}

#[tokio::test]
async fn are_passed_through_by_default() {
    over_each(Server::new, async |server, protocol, told| {
        let before = server.desk.finished();
        let call = server.call(protocol, "Describe", Some(Uuid::new_v4()), protocol.empty());
        server.send(protocol, call).await.message();
        assert_eq!(server.desk.finished(), before + 1, "{told}");
    })
    .await;
}

#[tokio::test]
async fn are_refused_on_a_get_over_connect() {
    for kind in Kind::BOTH {
        let server = refusing(kind).await;
        let get = get("Describe", "connect=v1&encoding=json&message=%7B%7D").header("user", server.user);
        let outcome = server.send(Protocol::ConnectJson, get.header("idempotency-key", Uuid::new_v4())).await;
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
