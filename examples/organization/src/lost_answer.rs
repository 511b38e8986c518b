//! Answers that are lost on purpose, to show what a client does then.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::{HeaderName, Response},
    middleware::Next,
};
use http_body::Frame;

/// The request header of a call that is carried out as any other, and whose answer does not arrive.
pub(crate) const LOSE_ANSWER: HeaderName = HeaderName::from_static("sample-lose-answer");

/// Carries the call out. If it asks for that, throws its answer away and breaks the connection, or the stream over HTTP/2.
pub(crate) async fn lose(request: Request, next: Next) -> Response<Body> {
    let is_lost = request.headers().contains_key(LOSE_ANSWER);
    let answer = next.run(request).await;
    if is_lost { Response::new(Body::new(Broken)) } else { answer }
}

/// A body that breaks off before it begins.
struct Broken;

impl HttpBody for Broken {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(Some(Err(io::Error::new(
            io::ErrorKind::ConnectionReset,
            "the answer is lost, as the call asked for",
        ))))
    }
}
