//! The deadlines of callers.

use tonic_idempotency_tests::catalog::proto::Seen;

use crate::prelude::*;

/// The header that carries the deadline in a protocol, with two values.
fn header(protocol: Protocol) -> (&'static str, [&'static str; 2]) {
    if protocol.is_connect() { ("connect-timeout-ms", ["50", "60000"]) } else { ("grpc-timeout", ["50m", "60S"]) }
}

fn seen(outcome: &Outcome) -> Seen {
    Created::decode(outcome.message().clone()).expect("a response").seen.expect("seen")
}

#[tokio::test]
async fn end_the_wait_but_not_the_call() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        // A gRPC caller ends the wait itself. tonic sends an answer too, but gRPC-Web's callers cannot read it.
        let told: &[Protocol] = match kind {
            Kind::Tonic => &[Protocol::Connect],
            Kind::Native => &[Protocol::Connect, Protocol::GrpcWeb],
        };
        for protocol in told.iter().copied() {
            let (name, [soon, _]) = header(protocol);
            let (key, before) = (Uuid::new_v4(), server.desk.started());
            let call = server.call(protocol, "Create", Some(key), &text(1, "hold")).header(name, soon);
            let outcome = server.send(protocol, call).await;
            assert_eq!(outcome.error().code(), Code::DeadlineExceeded, "{kind:?} {protocol:?} {outcome:?}");
            if protocol.is_connect() {
                assert_eq!(outcome.answer.status, 504);
            }
            until("the handler has started", async || server.desk.started() == before + 1).await;
            let finished = server.desk.finished();
            server.desk.open(1);
            until("the handler has finished", async || server.desk.finished() == finished + 1).await;
            let replay = server.create(protocol, key, &text(1, "hold")).await;
            replay.message();
            assert!(replay.is_replay(), "{kind:?} {protocol:?}");
            assert_eq!(server.desk.started(), before + 1);
        }
    }
}

#[tokio::test]
async fn are_not_longer_than_the_limit_of_connect() {
    let server =
        Server::set(Kind::Tonic, |layer| layer, |connect| connect.max_timeout(Duration::from_millis(50))).await;
    for asked in [None, Some("60000")] {
        let call = server.call(Protocol::ConnectJson, "Create", Some(Uuid::new_v4()), br#"{"script": "hold"}"#);
        let call = asked.into_iter().fold(call, |call, asked| call.header("connect-timeout-ms", asked));
        let answer = timeout(Duration::from_secs(30), server.send(Protocol::ConnectJson, call));
        let outcome = answer.await.expect("an answer, though the handler goes on");
        assert_eq!(outcome.error().code(), Code::DeadlineExceeded, "{asked:?}");
    }
}

#[tokio::test]
async fn are_passed_to_the_handler() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for protocol in [Protocol::Grpc, Protocol::GrpcWeb, Protocol::Connect] {
            let (name, [_, late]) = header(protocol);
            for key in [None, Some(Uuid::new_v4())] {
                let told = format!("{kind:?} {protocol:?} {key:?}");
                let call = server.call(protocol, "Create", key, b"").header(name, late);
                let seen = seen(&server.send(protocol, call).await);
                match key {
                    Some(_) => {
                        assert!(seen.has_deadline, "{told}");
                        assert_eq!(seen.timeout, "", "{told}");
                    }
                    None => match kind {
                        Kind::Tonic => assert!(!seen.timeout.is_empty(), "{told}"),
                        Kind::Native => assert!(seen.has_deadline, "{told}"),
                    },
                }
                let without = server.send(protocol, server.call(protocol, "Create", None, b"")).await;
                assert!(!self::seen(&without).has_deadline, "{told}");
            }
        }
    }
}

/// The Connect protocol allows at most ten digits.
#[tokio::test]
async fn that_are_malformed_are_ignored() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for value in ["", "soon", "-1", "12345678901"] {
            let call = server.call(Protocol::Connect, "Create", Some(Uuid::new_v4()), b"");
            let outcome = server.send(Protocol::Connect, call.header("connect-timeout-ms", value)).await;
            assert!(!seen(&outcome).has_deadline, "{kind:?} {value:?}");
        }
    }
}
