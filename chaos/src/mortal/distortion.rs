//! Distorts answers as proxies do: pages and errors of their own, bodies that are cut off, and bodies without an end.

use bytes::Bytes;
use clap::ValueEnum;
use futures_util::stream;
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use rand::{RngExt as _, rngs::ChaCha8Rng, seq::IndexedRandom as _};
use tonic::{Code, Status, body::Body};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Distortion {
    #[value(name = "a proxy's page")]
    Page,
    #[value(name = "a proxy's error")]
    Error,
    #[value(name = "neither body nor status")]
    Nothing,
    #[value(name = "a success without a body")]
    Empty,
    /// It ends there, or breaks off.
    #[value(name = "a part of the body")]
    Part,
    #[value(name = "a body without an end")]
    Endless,
}

impl Distortion {
    /// Picks the distortion of the next answer, if it gets one.
    pub(super) fn next(rng: &mut ChaCha8Rng) -> Option<Self> {
        if rng.random_range(0..SHARE) > 0 {
            return None;
        }
        Self::value_variants().choose(rng).copied()
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
            Self::Part => truncated(answer, random).await,
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
