//! Distorts answers as proxies do: pages and errors of their own, bodies that are cut off, and bodies without an end.

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use rand::{RngExt as _, rngs::ChaCha8Rng};
use tonic::{Code, Status, body::Body};

use crate::named::Named;

/// The share of the calls whose answers are distorted: one in so many.
const SHARE: u32 = 3;

/// The HTTP status of pages.
const PAGES: [u16; 14] = [200, 204, 400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 504, 520];

/// The codes that proxies and timeouts make.
const CODES: [Code; 7] = [
    Code::Aborted,
    Code::Cancelled,
    Code::DeadlineExceeded,
    Code::Internal,
    Code::ResourceExhausted,
    Code::Unavailable,
    Code::Unknown,
];

/// The replacement of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Distortion {
    /// A page, with an HTTP status.
    Page,
    /// An error of gRPC that is the proxy's.
    Error,
    /// No body, and no status.
    Nothing,
    /// No body, with the status of a success.
    Empty,
    /// A part of the body, which then ends, or breaks off.
    Truncated,
    /// A body without an end.
    Endless,
}

impl Named for Distortion {
    const ALL: &'static [Self] = &[Self::Page, Self::Error, Self::Nothing, Self::Empty, Self::Truncated, Self::Endless];

    fn name(self) -> &'static str {
        match self {
            Self::Page => "a proxy's page",
            Self::Error => "a proxy's error",
            Self::Nothing => "neither body nor status",
            Self::Empty => "a success without a body",
            Self::Truncated => "a part of the body",
            Self::Endless => "a body without an end",
        }
    }
}

impl Distortion {
    /// Picks the distortion of the next answer, if it gets one.
    pub(super) fn next(rng: &mut ChaCha8Rng) -> Option<Self> {
        (rng.random_range(0..SHARE) == 0).then(|| Self::ALL[rng.random_range(0..Self::ALL.len())])
    }

    /// The answer in place of that of the server; `None` if the call has not reached one.
    pub(super) async fn of(self, answer: Option<Response<Body>>, random: usize) -> Response<Body> {
        match self {
            Self::Page => {
                let page = Response::builder().status(PAGES[random % PAGES.len()]).header("content-type", "text/html");
                page.body(Body::new(http_body_util::Full::new(Bytes::from("<h1>sorry</h1>")))).expect("a page")
            }
            Self::Error => Status::new(CODES[random % CODES.len()], "of a proxy").into_http(),
            Self::Nothing => grpc(Body::empty()),
            Self::Empty => {
                let mut answer = grpc(Body::empty());
                answer.headers_mut().insert("grpc-status", HeaderValue::from_static("0"));
                answer
            }
            Self::Truncated => truncated(answer, random).await,
            Self::Endless => {
                let frames = stream::repeat_with(|| Ok::<_, Status>(Frame::data(Bytes::from_static(&[0; 1 << 16]))));
                grpc(Body::new(StreamBody::new(frames)))
            }
        }
    }
}

fn grpc(body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    answer
}

/// A part of an answer's data, without its trailers; with an error after it, or as if that was all.
async fn truncated(answer: Option<Response<Body>>, random: usize) -> Response<Body> {
    let Some(answer) = answer else { return grpc(Body::empty()) };
    let (parts, body) = answer.into_parts();
    let data = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let part = data.slice(..random % data.len().max(1));
    let mut frames = vec![Ok(Frame::data(part))];
    if random.is_multiple_of(2) {
        frames.push(Err(Status::internal("the connection of the proxy to the server is broken")));
    }
    Response::from_parts(parts, Body::new(StreamBody::new(stream::iter(frames))))
}
