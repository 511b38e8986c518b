//! Requests to the programs of this crate, on this machine.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time,
};

/// Returns the status code of a GET of `path`.
///
/// # Errors
///
/// There is no answer within `limit`, or it is not one of HTTP.
pub(crate) async fn get(port: u16, path: &str, limit: Duration) -> io::Result<u16> {
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    Ok(time::timeout(limit, ask(port, &request)).await??.0)
}

/// Returns the status code and the body of a POST to `path`.
///
/// # Errors
///
/// As [`get`].
pub(crate) async fn post(port: u16, path: &str, json: &str, limit: Duration) -> io::Result<(u16, String)> {
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}", json.len());
    time::timeout(limit, ask(port, &format!("POST {path} HTTP/1.0\r\n{headers}\r\n\r\n{json}"))).await?
}

async fn ask(port: u16, request: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    parse(&String::from_utf8_lossy(&answer)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let status = answer.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.trim().parse().ok()?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Some((status, body.to_owned()))
}
