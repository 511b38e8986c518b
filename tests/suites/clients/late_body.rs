//! Clients that send the head of a request first and its body a moment later, as Node does over HTTP/1.1. If the server
//! answers early and closes the connection, such a client may never see the answer: connect-node then reports `write
//! EPIPE` as INTERNAL.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::sample::Sample;

/// The time that an answer before the body would have to arrive.
const EARLY: Duration = Duration::from_millis(300);

/// The time in which an answer must arrive.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_rejected_call_can_still_send_its_body_over_http_1() {
    let sample = Sample::start().await;
    let address = sample.ready.address;
    let bearer = format!("Bearer {}", sample.ready.tokens.alice);
    for (content_type, body) in [("application/grpc-web+proto", "\0\0\0\0\0"), ("application/json", "{}   ")] {
        let invalid_key = [("authorization", bearer.as_str()), ("idempotency-key", "order-17")];
        assert_eq!(late(address, content_type, &invalid_key, body).await, 2, "an invalid key, {content_type}");
    }
}

/// Makes two calls on one connection, each with a late body. Returns the number of answers.
async fn late(address: SocketAddr, content_type: &str, headers: &[(&str, &str)], body: &str) -> usize {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "POST /organization.v1.ProjectService/CreateProject HTTP/1.1\r\nhost: {address}\r\n\
         content-type: {content_type}\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    let mut connection = TcpStream::connect(address).await.expect("a connection");
    let mut received = Vec::new();
    for call in 1..=2 {
        if connection.write_all(head.as_bytes()).await.is_err() {
            break;
        }
        let early = timeout(EARLY, answer(&mut connection, &mut received, call)).await;
        if connection.write_all(body.as_bytes()).await.is_err() {
            break;
        }
        if early.is_err() {
            timeout(PATIENCE, answer(&mut connection, &mut received, call)).await.expect("an answer");
        }
    }
    answers(&received)
}

/// Reads until this many answers have begun, or the connection ends.
async fn answer(connection: &mut TcpStream, received: &mut Vec<u8>, count: usize) {
    while answers(received) < count && matches!(connection.read_buf(received).await, Ok(1..)) {}
}

fn answers(received: &[u8]) -> usize {
    received.windows(9).filter(|window| window == b"HTTP/1.1 ").count()
}
