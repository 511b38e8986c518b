//! Malformed calls, which leave nothing behind.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic_idempotency::layer::IdempotencyLayerBuilder;

use crate::http::{Answer, Call, Version};
use crate::prelude::*;
use crate::protocol::path;

/// Asserts that the key is free: another call can use it.
async fn assert_free(server: &Server, key: Uuid, told: &str) {
    let before = server.desk.started();
    let outcome = server.create(Protocol::Grpc, key, b"").await;
    outcome.message();
    assert!(!outcome.is_replay() && server.desk.started() == before + 1, "{told}: {outcome:?}");
}

/// The vectors of `protobuf-canonical` have each way in which JSON can be malformed.
#[tokio::test]
async fn json_is_refused() {
    let nested = |open: &str, close: &str, depth| format!("{}{}{}", open.repeat(depth), "{}", close.repeat(depth));
    let deep = [
        format!(r#"{{"part": {}}}"#, nested(r#"{"inner": "#, "}", 101)),
        format!(r#"{{"part": {}}}"#, nested(r#"{"inner": "#, "}", 100_000)),
        format!(r#"{{"value": {}}}"#, nested("[", "]", 1_000_000)),
        format!(r#"{{"struct": {}}}"#, nested(r#"{"": "#, "}", 100_000)),
        format!(r#"{{"none": {}}}"#, nested("[", "]", 1_000_000)),
        format!(r#"{{"any": {}}}"#, nested(r#"{"@type": "/google.protobuf.Any", "value": "#, "}", 20)),
        format!(r#"{{"any": {}}}"#, nested(r#"{"@type": "/google.protobuf.Any", "value": "#, "}", 50_000)),
        format!(r#"{{"any": {}}}"#, nested(r#"{"value": "#, r#", "@type": "/google.protobuf.Any"}"#, 50_000)),
    ];
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let mut wrong = Vec::new();
        for json in [
            "",
            "{} {}",
            r#"{"int64": 1,}"#,
            r#"{"parts": [{}, {"none": null}]}"#,
            r#"{"color": "COLOR_GREEN"}"#,
            r#"{"any": {"@type": "type.googleapis.com/catalog.v1.Part", "none": 1}}"#,
            r#"{"byString": {}, "by_string": {}}"#,
            r#"{"byInt32": {"1": {}, "01": {}}}"#,
            r#"{"choiceText": "", "choiceNumber": 0}"#,
            r#"{"uint64": 18446744073709551616}"#,
            r#"{"strings": [null]}"#,
            r#"{"bytes": "*"}"#,
            r#"{"timestamp": "yesterday"}"#,
        ]
        .into_iter()
        .chain(deep.iter().map(String::as_str))
        {
            for protocol in kind.protocols().iter().copied().filter(|protocol| protocol.is_json()) {
                let (key, told) = (Uuid::new_v4(), format!("{kind:?} {protocol:?} {}", &json[..json.len().min(200)]));
                let outcome = server.create(protocol, key, json.as_bytes()).await;
                match outcome.result {
                    Err(error) if error.code() == Code::InvalidArgument => assert_free(&server, key, &told).await,
                    other => wrong.push(format!("{told}: {other:?}")),
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// A call without a key is not compared with others, so the layer is no stricter with it than the service itself.
#[tokio::test]
async fn json_with_unknown_fields_is_refused_with_a_key_and_as_by_the_service_itself_without() {
    for kind in Kind::BOTH {
        // A call of a transactional procedure is translated without a key, too.
        let transactional = |layer: IdempotencyLayerBuilder| {
            let layer = layer.store(MemoryStore::new().accept_transactions());
            layer.adjust_procedures(|procedure| procedure.mode(Mode::Transactional))
        };
        let server = Server::with(kind, transactional).await;
        let json = br#"{"none": {"a": [1]}, "int64": 1}"#;
        let refused = server.create(Protocol::ConnectJson, Uuid::new_v4(), json).await;
        let refused = refused.error();
        assert_eq!(
            (refused.code(), Reason::of(refused)),
            (Code::InvalidArgument, Some(Reason::RequestMalformed)),
            "{kind:?}"
        );
        let without =
            server.send(Protocol::ConnectJson, server.call(Protocol::ConnectJson, "Create", None, json)).await;
        match kind {
            Kind::Native => drop(without.message()),
            Kind::Tonic => assert_eq!(without.error().code(), Code::InvalidArgument),
        }
    }
}

#[tokio::test]
async fn json_is_accepted_if_unknown_fields_are_ignored() {
    for kind in Kind::BOTH {
        let server =
            Server::set(kind, |layer| layer.ignore_unknown_fields(true), |it| it.ignore_unknown_fields(true)).await;
        let key = Uuid::new_v4();
        let json = br#"{"none": {"a": [1]}, "int64": 1, "part": {"none": 1}, "color": "COLOR_GREEN"}"#;
        server.create(Protocol::ConnectJson, key, json).await.message();
        let replay = server.create(Protocol::ConnectJson, key, br#"{"int64": 1, "part": {}}"#).await;
        replay.message();
        assert!(replay.is_replay(), "{kind:?}");
        let twice = server.create(Protocol::ConnectJson, Uuid::new_v4(), br#"{"none": 1, "none": 2}"#).await;
        assert_eq!(twice.error().code(), Code::InvalidArgument, "{kind:?}");
    }
}

#[tokio::test]
async fn bodies_are_refused() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let framed = vec![
            vec![],
            vec![0, 0],
            vec![0, 0, 0, 0, 9, 1],
            vec![0, 0xff, 0xff, 0xff, 0xff, 1],
            [framed(b""), framed(b"")].concat(),
            framed(&[0x28]).to_vec(),
            vec![7, 0, 0, 0, 0],
        ];
        let in_text: [&[u8]; 6] = [
            b"",
            b"AAAAAAA",          // truncated
            b"AAAA!!AAAA==",     // not base64
            b"AAAAAAkB",         // a truncated message
            b"AAAAAAAAAAAAAA==", // two messages
            b"AAAAAAEo",         // not a message
        ];
        for (protocol, bodies) in [
            (Protocol::Connect, vec![vec![0x28], vec![0xff; 3], vec![0x0a, 5, b'a']]),
            (Protocol::Grpc, framed.clone()),
            (Protocol::GrpcWeb, framed),
            (Protocol::GrpcWebText, in_text.map(<[u8]>::to_vec).into()),
        ] {
            if !kind.protocols().contains(&protocol) {
                continue;
            }
            for body in bodies {
                let (key, told) = (Uuid::new_v4(), format!("{kind:?} {protocol:?} {body:02x?}"));
                let outcome = server.send(protocol, server.call(protocol, "Create", Some(key), b"").body(body)).await;
                assert!(
                    matches!(
                        outcome.error().code(),
                        Code::InvalidArgument | Code::Internal | Code::ResourceExhausted | Code::Unimplemented
                    ),
                    "{told}: {outcome:?}"
                );
                if protocol == Protocol::Connect {
                    assert_eq!(outcome.error().code(), Code::InvalidArgument, "{told}");
                }
                assert_free(&server, key, &told).await;
            }
        }
    }
}

/// Over HTTP/1.1 a server that answers before it has read the request has to close the connection.
#[tokio::test]
async fn bodies_do_not_break_the_next_call_on_the_connection() {
    const LIMIT: usize = 4 << 20;
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let mut bodies = vec![[framed(b""), framed(&vec![0; LIMIT / 2])].concat(), vec![7; LIMIT / 2]];
        // `connectrpc` closes the connection on purpose if a body is too large.
        if kind == Kind::Tonic {
            bodies.push(framed(&vec![0; LIMIT + 1]).to_vec());
        }
        for body in bodies {
            let told = format!("{kind:?} {:?}", &body[..5]);
            let next = server.call(Protocol::GrpcWeb, "Create", Some(Uuid::new_v4()), b"");
            let answers = Call::send_in_turn(vec![next.clone().body(body), next], server.address).await;
            let answers: Vec<_> = answers.into_iter().map(|answer| Protocol::GrpcWeb.read(answer).result).collect();
            assert!(matches!(answers.as_slice(), [Err(_), Ok(_)]), "{told}: {answers:?}");
        }
    }
}

/// Sends a changed call with a key and returns the answer.
async fn other(server: &Server, key: Uuid, change: impl FnOnce(Call) -> Call) -> Answer {
    let call = server.call(Protocol::ConnectJson, "Create", Some(key), b"{}");
    change(Call { version: Version::One, ..call }).send(server.address).await
}

#[tokio::test]
async fn heads_are_refused() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let key = Uuid::new_v4();
        for content_type in ["text/plain", "application/xml", "application/jsonx", ""] {
            let answer = other(&server, key, |call| call.replace("content-type", content_type)).await;
            assert_eq!(answer.status, 415, "{kind:?} {content_type:?} {answer:?}");
            // Behind Connect, a tonic server is not asked. A native one has the layer in front.
            assert_eq!(answer.header("accept-post").is_some(), kind == Kind::Tonic, "{kind:?}");
        }
        for method in [Method::PUT, Method::DELETE, Method::PATCH] {
            let answer = other(&server, key, |call| Call { method: method.clone(), ..call }).await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{kind:?} {method}");
        }
        let answer = other(&server, key, |call| call.replace("connect-protocol-version", "2")).await;
        assert_eq!(answer.status, 400, "{kind:?} {answer:?}");
        let answer = other(&server, key, |call| call.header("content-encoding", "br")).await;
        assert_eq!(answer.status, 501, "{kind:?} {answer:?}");
        assert_eq!(server.desk.started(), 0);
        assert_free(&server, key, "heads").await;
        let answer =
            other(&server, Uuid::new_v4(), |call| call.replace("content-type", "application/json; charset=utf-8"))
                .await;
        assert_eq!(answer.status, 200, "{kind:?} {answer:?}");
    }
}

/// Envelopes are for streams; a unary procedure has none.
#[tokio::test]
async fn a_streamed_call_of_a_unary_procedure_does_not_run_its_handler() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        for content_type in ["application/connect+json", "application/connect+proto"] {
            let key = Uuid::new_v4();
            let answer =
                other(&server, key, |call| call.replace("content-type", content_type).body(framed(b"{}"))).await;
            assert_eq!(server.desk.started(), 0, "{kind:?} {content_type} {answer:?}");
        }
    }
}

#[tokio::test]
async fn streams_are_for_grpc_on_a_tonic_server() {
    let server = Server::new(Kind::Tonic).await;
    for (content_type, body) in
        [("application/json", b"{}".to_vec()), ("application/connect+json", framed(b"{}").to_vec())]
    {
        let call = server.call(Protocol::ConnectJson, "Watch", None, b"").replace("content-type", content_type);
        let answer = call.body(body).send(server.address).await;
        let text = String::from_utf8_lossy(&answer.body);
        assert!(text.contains("unimplemented") || answer.status == 415, "{content_type}: {answer:?}");
    }
    assert_eq!(server.desk.started(), 0);
    let watched = server.send(Protocol::GrpcWeb, server.call(Protocol::GrpcWeb, "Watch", None, b"")).await;
    watched.message();
}

/// A request body has half a minute.
#[tokio::test]
async fn a_stream_that_does_not_end_is_refused_by_its_head() {
    let server = Server::new(Kind::Tonic).await;
    let mut stream = TcpStream::connect(server.address).await.expect("the server listens");
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: catalog\r\ncontent-type: application/connect+json\r\ntransfer-encoding: chunked\r\n\r\n",
        path("Watch")
    );
    stream.write_all(head.as_bytes()).await.expect("an open connection");
    let mut answer = Vec::new();
    let refused = async {
        while !String::from_utf8_lossy(&answer).contains("unimplemented") {
            assert!(stream.read_buf(&mut answer).await.expect("an open connection") > 0, "{answer:?}");
        }
    };
    timeout(Duration::from_secs(15), refused).await.expect("it is refused at once");
}
