//! GET requests over HTTP/1.1.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The whole answer to a request for a path with this host.
pub(crate) async fn get(address: SocketAddr, host: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.expect("it is sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("an answer");
    answer
}
