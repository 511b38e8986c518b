//! HTTP requests with exactly the bytes that a test wants.

use http::{HeaderMap, Request};
use http_body_util::Full;
use hyper::client::conn;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::prelude::*;

/// The version of HTTP that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

/// A request, as parts that a test can change.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) version: Version,
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

/// The response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
}

impl Call {
    pub(crate) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Replaces the value of a header.
    pub(crate) fn replace(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.retain(|(old, _)| *old != name);
        self.header(name, value)
    }

    /// Sends the request on a new connection, which is closed when this future is dropped or done.
    pub(crate) async fn send(self, to: SocketAddr) -> Answer {
        let stream = TokioIo::new(TcpStream::connect(to).await.expect("the server listens"));
        let version = self.version;
        let request = self.request(to);
        match version {
            Version::One => {
                let (mut sender, connection) = conn::http1::handshake(stream).await.expect("HTTP/1.1");
                Answer::read(sender.send_request(request), connection).await
            }
            Version::Two => {
                let (mut sender, connection) =
                    conn::http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
                Answer::read(sender.send_request(request), connection).await
            }
        }
    }

    /// Sends the requests one after another on one connection over HTTP/1.1. Returns the answers until the server
    /// closes the connection.
    pub(crate) async fn send_in_turn(calls: Vec<Self>, to: SocketAddr) -> Vec<Answer> {
        let stream = TokioIo::new(TcpStream::connect(to).await.expect("the server listens"));
        let (mut sender, connection) = conn::http1::handshake(stream).await.expect("HTTP/1.1");
        let connection = tokio::spawn(connection);
        let mut answers = Vec::new();
        for call in calls {
            let request = Self { version: Version::One, ..call }.request(to);
            let Ok(()) = sender.ready().await else { break };
            let Ok(response) = sender.send_request(request).await else { break };
            answers.push(Answer::of(response).await);
        }
        connection.abort();
        answers
    }

    fn request(self, to: SocketAddr) -> Request<Full<Bytes>> {
        let uri = match self.version {
            Version::One => self.path,
            Version::Two => format!("http://{to}{}", self.path),
        };
        let mut request = Request::builder().method(self.method).uri(uri);
        if self.version == Version::One {
            request = request.header("host", to.to_string());
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(self.body)).expect("a request")
    }
}

impl Answer {
    async fn read(
        response: impl Future<Output = hyper::Result<http::Response<hyper::body::Incoming>>>,
        connection: impl Future<Output = hyper::Result<()>>,
    ) -> Self {
        let answer = async { Self::of(response.await.expect("a response")).await };
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            // The connection has ended; an answer may have come before.
            _ = connection => answer.await,
        }
    }

    async fn of(response: http::Response<hyper::body::Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body");
        let trailers = body.trailers().cloned().unwrap_or_default();
        Self { status: parts.status.as_u16(), headers: parts.headers, body: body.to_bytes(), trailers }
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        Some(self.headers.get(name)?.to_str().expect("text"))
    }
}
