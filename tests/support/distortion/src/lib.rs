//! Distorts answers as proxies do: pages and errors of their own, and bodies that are cut off.

use bytes::Bytes;
use fastrand::Rng;
use futures_util::stream;
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use tonic::{Code, Status, body::Body};

/// The message of errors that no server has made.
pub const OF_A_PROXY: &str = "of a proxy";

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

/// Returns what a client gets in place of an answer.
pub async fn distort(answer: Response<Body>, random: &mut Rng) -> Response<Body> {
    match random.u64(0..=4) {
        0 => {
            let page =
                Response::builder().status(*random.choice(&PAGES).expect("a page")).header("content-type", "text/html");
            page.body(Body::new(Full::new(Bytes::from("<h1>sorry</h1>")))).expect("a page")
        }
        1 => Status::new(*random.choice(&CODES).expect("a code"), OF_A_PROXY).into_http(),
        2 => grpc(),
        3 => {
            let mut success = grpc();
            success.headers_mut().insert("grpc-status", HeaderValue::from_static("0"));
            success
        }
        _ => truncate(answer, random).await,
    }
}

/// Returns neither a message nor a status.
fn grpc() -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    answer
}

/// Returns a part of the message or all of it, without the status behind it: with an error after it, or as if that was all.
async fn truncate(answer: Response<Body>, random: &mut Rng) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    let mut data = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    data.truncate(usize::try_from(random.u64(0..=data.len() as u64)).unwrap_or_default());
    let broken = (random.u32(..2) == 0).then(|| Err(Status::unavailable("the connection to the server is broken")));
    Response::from_parts(
        parts,
        Body::new(StreamBody::new(stream::iter([Ok(Frame::data(data))].into_iter().chain(broken)))),
    )
}
