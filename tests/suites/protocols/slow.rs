//! Bodies that do not arrive: the client is answered after a time, whatever its protocol.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::prelude::*;

const LIMIT: Duration = Duration::from_millis(100);

/// Shorter than the default limit.
const PATIENCE: Duration = Duration::from_secs(20);

async fn server(kind: Kind) -> Server {
    Server::set(kind, |layer| layer.request_body_timeout(LIMIT), |connect| connect.request_body_timeout(LIMIT)).await
}

/// Sends the head of a call, and a part of its body. Returns the answer up to a text.
async fn answer(to: SocketAddr, content_type: &str, user: Uuid, key: &str, until: &str) -> String {
    let head = format!(
        "POST /catalog.v1.Catalog/Create HTTP/1.1\r\nhost: {to}\r\ncontent-type: {content_type}\r\nuser: {user}\r\n\
         idempotency-key: {key}\r\nconnect-protocol-version: 1\r\ncontent-length: 100\r\n\r\n{{"
    );
    let mut connection = TcpStream::connect(to).await.expect("a connection");
    connection.write_all(head.as_bytes()).await.expect("it is sent");
    let mut received = Vec::new();
    let read = async {
        loop {
            let text = String::from_utf8_lossy(&received);
            if text.contains(until) || connection.read_buf(&mut received).await.expect("an answer") == 0 {
                return String::from_utf8_lossy(&received).into_owned();
            }
        }
    };
    timeout(PATIENCE, read).await.expect("an answer in time")
}

#[tokio::test]
async fn end_calls_with_a_key_over_connect() {
    for kind in Kind::BOTH {
        let server = server(kind).await;
        let key = Uuid::new_v4().to_string();
        let answer = answer(server.address, "application/json", server.user, &key, "did not arrive").await;
        assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("did not arrive within 100ms"), "{answer}");
        assert_eq!(server.desk.started(), 0);
    }
}

/// Over HTTP/1 the body of a refused call is read first: otherwise its client may never read the answer.
#[tokio::test]
async fn end_calls_over_grpc_web_and_do_not_delay_a_refusal_for_longer() {
    let server = server(Kind::Tonic).await;
    let key = Uuid::new_v4().to_string();
    for (key, until, code) in [(&*key, "did%20not%20arrive", 4), ("order-17", "grpc-message", 3)] {
        let answer = answer(server.address, "application/grpc-web+proto", server.user, key, until).await;
        assert!(answer.to_lowercase().replace(": ", ":").contains(&format!("grpc-status:{code}")), "{answer}");
    }
    assert_eq!(server.desk.started(), 0);
}
