//! Clients that disconnect during a call.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::prelude::*;
use crate::protocol::path;

/// Sends a request over HTTP/1.1, byte by byte as given, and leaves the connection open.
async fn begin(server: &Server, key: Uuid, body: &[u8], length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.expect("the server listens");
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: catalog\r\ncontent-type: application/json\r\nuser: {}\r\nidempotency-key: {key}\r\n\
         content-length: {length}\r\n\r\n",
        path("Create"),
        server.user,
    );
    stream.write_all(head.as_bytes()).await.expect("an open connection");
    stream.write_all(body).await.expect("an open connection");
    stream
}

#[tokio::test]
async fn do_not_end_a_call_with_a_key() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let (key, body) = (Uuid::new_v4(), br#"{"script": "hold"}"#);
        let stream = begin(&server, key, body, body.len()).await;
        until("the handler has started", async || server.desk.started() == 1).await;
        drop(stream);
        until("the server has given the call up", async || server.watch.given_up() == 1).await;
        server.desk.open(1);
        until("the handler has finished", async || server.desk.finished() == 1).await;
        for protocol in kind.protocols().iter().copied().filter(|protocol| !protocol.is_json()) {
            let replay = server.create(protocol, key, &text(1, "hold")).await;
            let created = <Created as prost::Message>::decode(replay.message().clone()).expect("a response");
            assert!(replay.is_replay() && !created.id.is_empty(), "{kind:?} {protocol:?}");
        }
        assert_eq!(server.desk.started(), 1);
    }
}

/// Behaves as if the layer were not there.
#[tokio::test]
async fn end_a_call_without_a_key() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let call = server.call(Protocol::ConnectJson, "Create", None, br#"{"script": "hold"}"#);
        let caller = tokio::spawn(call.send(server.address));
        until("the handler has started", async || server.desk.started() == 1).await;
        caller.abort();
        until("the server has given the call up", async || server.watch.given_up() == 1).await;
        server.desk.open(1);
        // The next call passes the gate that was opened for the first.
        let next = server.call(Protocol::ConnectJson, "Create", None, br#"{"script": "hold"}"#);
        server.send(Protocol::ConnectJson, next).await.message();
        assert_eq!((server.desk.started(), server.desk.finished()), (2, 1), "{kind:?}");
    }
}

#[tokio::test]
async fn do_not_reserve_a_key_with_half_a_request() {
    for kind in Kind::BOTH {
        let server = Server::new(kind).await;
        let key = Uuid::new_v4();
        let mut stream = begin(&server, key, br#"{"script""#, 100).await;
        stream.shutdown().await.expect("an open connection");
        let mut answer = Vec::new();
        // The server closes the connection, with or without an answer.
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(server.desk.started(), 0);
        let first = server.create(Protocol::Connect, key, b"").await;
        first.message();
        assert!(!first.is_replay(), "{kind:?}");
    }
}
