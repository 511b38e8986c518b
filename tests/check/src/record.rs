//! An answer, and its replays.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use prost::Message as _;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tonic::{Code, Status};

use crate::{
    fault::{Fault, Faults},
    shop::{now, proto::CreateOrderResponse},
};

/// How long the work behind an order takes.
const WORK: Duration = Duration::from_millis(300);

/// How many answers have had a status.
static LOOKS: AtomicU64 = AtomicU64::new(0);

/// How many seconds a key protects at least. Records live longer.
const PROTECTION: u64 = 5;

/// The length of what stands before a message of gRPC.
const PREFIX: usize = 5;

/// How long an answer's message takes to follow its headers, where it matters whether it is read.
const GAP: Duration = Duration::from_millis(200);

/// The end of a handler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) procedure: String,
    pub(crate) hash: Option<Vec<u8>>,
    /// In nanoseconds since 1970.
    pub(crate) created: u64,
    headers: Vec<(String, String)>,
    trailers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// Which answer of an operation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    First,
    Replay,
}

impl Record {
    /// Reads a handler's response.
    pub(crate) async fn of(procedure: &str, hash: Option<Vec<u8>>, response: Response) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await;
        let trailers = body.as_ref().ok().and_then(|body| body.trailers().cloned()).unwrap_or_default();
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let mut record = Self {
            procedure: procedure.to_owned(),
            hash,
            created: now(),
            headers: pairs(&head.headers),
            trailers: pairs(&trailers),
            body: body.to_vec(),
        };
        if record.is_success() {
            record.trailers.push(("x-cost".to_owned(), "7".to_owned()));
        }
        record
    }

    pub(crate) fn is_success(&self) -> bool {
        let status =
            Status::from_header_map(&map(&self.trailers)).or_else(|| Status::from_header_map(&map(&self.headers)));
        status.is_some_and(|status| status.code() == Code::Ok)
    }

    /// Returns the answer. `unread` is called if its caller goes away before its end.
    pub(crate) fn answer(&self, turn: Turn, faults: Faults, unread: impl FnOnce() + Send + 'static) -> Response {
        let is_replay = turn == Turn::Replay;
        let mut headers = map(&self.headers);
        let mut trailers = map(&self.trailers);
        let mut body = Bytes::copy_from_slice(&self.body);
        if is_replay && faults.has(Fault::HeadersLost) {
            headers.remove("x-region");
        }
        if is_replay && faults.has(Fault::TrailersLost) {
            trailers.remove("x-cost");
        }
        if is_replay && faults.has(Fault::FreshResponse) {
            body = fresh(&body);
        }
        self.describe(&mut headers, is_replay, faults);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let body = if faults.has(Fault::FreedIfUnread) { slow(body, trailers, unread) } else { whole(body, trailers) };
        let mut response = Response::new(body);
        *response.headers_mut() = headers;
        response
    }

    /// Adds what a client reads about its key.
    fn describe(&self, headers: &mut HeaderMap, is_replay: bool, faults: Faults) {
        let mut add = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        if is_replay || faults.has(Fault::MarksAll) {
            add("idempotent-replayed", "true");
        }
        if !self.is_success() {
            add("idempotency-outcome", if faults.has(Fault::SaysKept) { "kept" } else { "freed" });
            return;
        }
        let is_turned = faults.has(Fault::StatusTurnsBack) && LOOKS.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let is_working = !is_replay || faults.has(Fault::StatusStuck) || self.age() < WORK || is_turned;
        add("idempotency-status", if is_working { "processing" } else { "completed" });
        let grown = u64::from(is_replay && faults.has(Fault::ExpiresGrows));
        add("idempotency-expires", &(PROTECTION.saturating_sub(self.age().as_secs()) + grown).to_string());
    }
}

fn whole(body: Bytes, trailers: HeaderMap) -> Body {
    let data = if body.is_empty() { stream::iter(None) } else { stream::iter(Some(Ok(Frame::data(body)))) };
    Body::new(StreamBody::new(data.chain(stream::iter([Ok::<_, axum::Error>(Frame::trailers(trailers))]))))
}

/// A body that is long on its way.
fn slow(body: Bytes, trailers: HeaderMap, unread: impl FnOnce() + Send + 'static) -> Body {
    let guard = Guard(Some(unread));
    let rest = stream::once(async move {
        sleep(GAP).await;
        let mut guard = guard;
        guard.0 = None;
        Ok::<_, axum::Error>(Frame::data(body))
    });
    Body::new(StreamBody::new(rest.chain(stream::iter([Ok(Frame::trailers(trailers))]))))
}

/// Calls its function when it is dropped.
pub(crate) struct Guard<F: FnOnce()>(pub(crate) Option<F>);

impl<F: FnOnce()> Drop for Guard<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

/// The response, made anew.
fn fresh(body: &Bytes) -> Bytes {
    let Some(message) = body.get(PREFIX..).and_then(|message| CreateOrderResponse::decode(message).ok()) else {
        return body.clone();
    };
    frame(&CreateOrderResponse { created: now(), ..message }.encode_to_vec())
}

/// A message as gRPC sends it.
fn frame(message: &[u8]) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    body.put_slice(message);
    body.freeze()
}

/// An empty response, as an answer to a duplicate.
pub(crate) fn empty() -> Response {
    let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
    let mut response = Response::new(whole(frame(&[]), trailers));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// A body without a status.
pub(crate) fn bare(body: &'static [u8]) -> Response {
    Response::new(Body::from(body))
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let pairs = headers.iter().filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    pairs.collect()
}

fn map(pairs: &[(String, String)]) -> HeaderMap {
    let pairs = pairs.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)));
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let (name, value): (HeaderName, HeaderValue) = (name, value);
        map.append(name, value);
    }
    map
}
