//! Errors in each protocol.

use tonic_idempotency::policy::{KeyPolicy, Policies};

use crate::prelude::*;
use crate::protocol::CODES;

/// The header by which gRPC's own retry policies decide whether to try again.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// The header by which a client distinguishes an answer of the layer from a proxy's.
const OUTCOME: &str = "idempotency-outcome";

/// Calls a procedure that fails with a code.
async fn fail(server: &Server, protocol: Protocol, procedure: &str, key: Option<Uuid>, code: Code) -> Outcome {
    let message = protocol.script(&format!("fail with {}", i32::from(code)));
    server.send(protocol, server.call(protocol, procedure, key, &message)).await
}

fn assert_as_asked(outcome: &Outcome, code: Code, told: &str) {
    let status = outcome.error();
    assert_eq!((status.code(), status.message()), (code, "as asked: \u{2713} 100 %"), "{told}: {outcome:?}");
    let info = status.get_details_error_info().unwrap_or_else(|| panic!("{told}: no details: {outcome:?}"));
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("AS_ASKED", "catalog.example"), "{told}");
    assert_eq!(info.metadata["shelf"], "17", "{told}");
}

#[tokio::test]
async fn come_from_the_handler_with_a_key_and_without() {
    over_each(Server::new, async |server, protocol, told| {
        for (code, name, http) in CODES {
            for key in [None, Some(Uuid::new_v4())] {
                let told = format!("{told} {name} {key:?}");
                let outcome = fail(server, protocol, "Create", key, code).await;
                assert_as_asked(&outcome, code, &told);
                assert!(!outcome.is_replay(), "{told}");
                assert!(!outcome.answer.headers.contains_key(PUSHBACK), "{told}");
                assert_eq!(outcome.answer.header(OUTCOME), key.map(|_| "freed"), "{told}");
                if protocol.is_connect() {
                    assert_eq!(outcome.answer.status, http, "{told}");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn are_replayed_over_every_protocol_if_they_are_final() {
    over_each(Server::new, async |server, first, told| {
        let (key, before) = (Some(Uuid::new_v4()), server.desk.started());
        let outcome = fail(server, first, "Settle", key, Code::FailedPrecondition).await;
        assert_as_asked(&outcome, Code::FailedPrecondition, "the first");
        assert_eq!(outcome.answer.header(OUTCOME), Some("kept"));
        for protocol in server.kind.protocols().iter().copied() {
            let told = format!("{told} {protocol:?}");
            let outcome = fail(server, protocol, "Settle", key, Code::FailedPrecondition).await;
            assert_as_asked(&outcome, Code::FailedPrecondition, &told);
            assert!(outcome.is_replay(), "{told}: {outcome:?}");
            assert_eq!(outcome.answer.header(OUTCOME), Some("kept"), "{told}");
            let notes: Vec<_> = outcome.answer.headers.get_all("catalog-note").iter().collect();
            assert_eq!(notes, ["one", "two"], "{told}");
            if protocol.is_connect() {
                assert_eq!(outcome.answer.status, 400, "{told}");
            }
        }
        assert_eq!(server.desk.started() - before, 1);
    })
    .await;
}

/// Checks the form that connect-es and connect-go read.
#[tokio::test]
async fn have_details_in_readable_json() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for protocol in [Protocol::Connect, Protocol::ConnectJson] {
            let outcome = fail(&server, protocol, "Create", Some(Uuid::new_v4()), Code::NotFound).await;
            let error: serde_json::Value = serde_json::from_slice(&outcome.answer.body).expect("JSON");
            assert_eq!(error["code"], "not_found");
            assert_eq!(error["message"], "as asked: \u{2713} 100 %");
            let detail = &error["details"][0];
            assert_eq!(detail["type"], "google.rpc.ErrorInfo");
            assert!(!detail["value"].as_str().expect("base64").contains('='), "it has no padding: {detail}");
            let debug = serde_json::json!({
                "reason": "AS_ASKED", "domain": "catalog.example", "metadata": { "shelf": "17" }
            });
            assert_eq!(detail["debug"], debug, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn come_from_the_layer_if_it_rejects_the_call() {
    let required = async |kind| {
        let policies = Policies { key_policy: KeyPolicy::Required, ..Policies::default() };
        Server::with(kind, |builder| builder.policies(policies)).await
    };
    over_each(required, async |server, protocol, told| {
        let call = |key| server.call(protocol, "Create", key, protocol.empty());
        let without = server.send(protocol, call(None)).await;
        assert_eq!(Reason::of(without.error()), Some(Reason::KeyRequired), "{told}: {without:?}");
        let malformed = server.send(protocol, call(None).header("idempotency-key", "none")).await;
        assert_eq!(Reason::of(malformed.error()), Some(Reason::KeyInvalid), "{told}");
        assert!(malformed.error().get_details_bad_request().is_some(), "{told}");
        let pushback = [&malformed.answer.headers, &malformed.answer.trailers].map(|map| map.get(PUSHBACK));
        let pushback = pushback.into_iter().flatten().next().map(|value| value.to_str().expect("text"));
        assert_eq!(pushback, (!protocol.is_connect()).then_some("-1"), "{told}: {malformed:?}");
        let twice = call(Some(Uuid::new_v4())).header("idempotency-key", Uuid::new_v4());
        let twice = server.send(protocol, twice).await;
        assert_eq!(Reason::of(twice.error()), Some(Reason::KeyInvalid), "{told}");
        assert_eq!(server.desk.started(), 0);
    })
    .await;
}
