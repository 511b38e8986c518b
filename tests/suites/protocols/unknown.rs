//! Calls of procedures that no service has.

use crate::http::{Call, Version};
use crate::prelude::*;

/// Larger than what a server reads ahead.
const LARGE: usize = 1 << 20;

#[tokio::test]
async fn is_not_found_and_unimplemented_over_connect() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for protocol in [Protocol::Connect, Protocol::ConnectJson] {
            for version in [Version::One, Version::Two] {
                for path in ["/catalog.v1.Catalog/None", "/none.v1.None/None", "/none"] {
                    let told = format!("{kind:?} {protocol:?} {version:?} {path}");
                    let call = server.call(protocol, "Create", None, b"{}");
                    let outcome = server.send(protocol, Call { version, path: path.to_owned(), ..call }).await;
                    assert_eq!(outcome.answer.status, 404, "{told}: {outcome:?}");
                    assert_eq!(outcome.error().code(), Code::Unimplemented, "{told}");
                }
            }
        }
    }
}

/// Clients may leave out the header with the protocol's version, and a GET has it in its query.
#[tokio::test]
async fn is_not_found_without_a_header_if_only_connect_has_such_requests() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let none = Call { path: "/none.v1.None/None".to_owned(), ..server.call(Protocol::Connect, "", None, b"") };
        let without = |call: Call| {
            let headers = call.headers.into_iter().filter(|(name, _)| *name != "connect-protocol-version");
            Call { headers: headers.collect(), ..call }
        };
        let path = "/none.v1.None/None?connect=v1&encoding=json&message=%7B%7D".to_owned();
        let get = Call { method: Method::GET, path, headers: Vec::new(), ..none.clone() };
        for call in [without(none.clone()), get] {
            let answer = call.send(server.address).await;
            assert_eq!(answer.status, 404, "{kind:?} {answer:?}");
            assert_eq!(Protocol::Connect.read(answer).error().code(), Code::Unimplemented, "{kind:?}");
        }

        let stream = without(none).replace("content-type", "application/connect+json").body(framed(b"{}"));
        let answer = stream.send(server.address).await;
        let text = String::from_utf8_lossy(&answer.body);
        assert!(answer.status == 200 && text.contains("unimplemented"), "{kind:?} {answer:?}");
    }
}

/// As docs/client.md calls a server by `fetch`. Paths of other services are not the layer's.
#[tokio::test]
async fn is_not_found_without_a_header_if_its_service_is_known() {
    let server = Server::new(Kind::Tonic).await;
    let call = server.call(Protocol::ConnectJson, "Creat", Some(Uuid::new_v4()), b"{}");
    let headers = call.headers.iter().filter(|(name, _)| *name != "connect-protocol-version").cloned().collect();
    let call = Call { headers, ..call };
    let answer = call.clone().send(server.address).await;
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(Protocol::ConnectJson.read(answer).error().code(), Code::Unimplemented);

    let answer = Call { path: "/other.v1.Other/Create".to_owned(), ..call }.send(server.address).await;
    let text = String::from_utf8_lossy(&answer.body);
    assert!(!text.contains("unimplemented"), "{answer:?}");
}

#[tokio::test]
async fn does_not_break_the_next_call_on_the_connection() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for protocol in [Protocol::Connect, Protocol::ConnectJson] {
            let next = server.call(protocol, "Describe", None, protocol.empty());
            let none = Call { path: "/none.v1.None/None".to_owned(), ..next.clone() };
            let calls = vec![none.body(vec![b' '; LARGE]), next];
            let answers = Call::send_in_turn(calls, server.address).await;
            let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
            assert_eq!(statuses, [404, 200], "{kind:?} {protocol:?} {answers:?}");
        }
    }
}
