//! The answer of one attempt, whole.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, response::Parts};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::Status;
use tonic_idempotency_wire::headers;

use crate::{BoxError, Delivery, journal::KEPT, verdict::Verdict};

/// The answer of one attempt.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most answers are complete, and a box would be an allocation of each call"
)]
pub(crate) enum Answer {
    /// The server, or something before it, has answered.
    Complete { parts: Parts, data: Collected },
    /// The connection could not be made, or was lost before the answer was there.
    Lost(BoxError),
    /// The attempt's time is over.
    TimedOut,
}

/// The body of an answer: its data, and its trailers.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    first: Option<Bytes>,
    more: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
}

pin_project! {
    /// The future of one attempt.
    pub(crate) struct Attempt<F, B> {
        #[pin]
        stage: Stage<F, B>,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F, B> {
        Sent { #[pin] response: F },
        Received { parts: Option<Parts>, #[pin] body: B, data: Collected },
    }
}

impl<F, B> Attempt<F, B> {
    pub(crate) fn new(sent: F) -> Self {
        Self { stage: Stage::Sent { response: sent } }
    }
}

impl<F, B, E> Future for Attempt<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let mut stage = self.project().stage;
        loop {
            match stage.as_mut().project() {
                StageProj::Sent { response } => match ready!(response.poll(cx)) {
                    Ok(response) => {
                        let (parts, body) = response.into_parts();
                        stage.set(Stage::Received { parts: Some(parts), body, data: Collected::default() });
                    }
                    Err(error) => return Poll::Ready(Answer::Lost(error.into())),
                },
                StageProj::Received { parts, body, data } => match ready!(body.poll_frame(cx)) {
                    Some(Ok(frame)) => data.push(frame),
                    Some(Err(error)) => return Poll::Ready(Answer::Lost(error.into())),
                    None => {
                        let parts = parts.take().expect("it is not polled again");
                        return Poll::Ready(Answer::Complete { parts, data: std::mem::take(data) });
                    }
                },
            }
        }
    }
}

impl Answer {
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Complete { parts, data } => {
                // Without a body, the headers have the status.
                Verdict::of(parts.status, data.trailers.as_ref().unwrap_or(&parts.headers))
            }
            Self::Lost(_) | Self::TimedOut => Verdict::Again(None),
        }
    }

    /// The status of the answer, if it has one.
    pub(crate) fn status(&self) -> Option<Status> {
        match self {
            Self::Complete { parts, data } => data.status(parts),
            Self::Lost(_) | Self::TimedOut => None,
        }
    }

    /// How the answer came about, as the layer has noted.
    pub(crate) fn delivery(&self) -> Delivery {
        match self {
            Self::Complete { parts, .. } => Delivery::of(&parts.extensions),
            Self::Lost(_) | Self::TimedOut => Delivery::AT_ONCE,
        }
    }

    /// The time for which the key still protects, if the server says so.
    pub(crate) fn protected_for(&self) -> Option<Duration> {
        let Self::Complete { parts, data } = self else { return None };
        let in_trailers = data.trailers.as_ref().and_then(|trailers| trailers.get(headers::EXPIRES));
        let seconds = parts.headers.get(headers::EXPIRES).or(in_trailers)?.to_str().ok()?;
        seconds.trim().parse().ok().map(Duration::from_secs)
    }

    /// Says that the operation stays in the journal.
    pub(crate) fn kept(self, key: HeaderValue) -> Self {
        match self {
            Self::Complete { mut parts, mut data } if data.status(&parts).is_some() => {
                data.trailers.as_mut().unwrap_or(&mut parts.headers).insert(KEPT, key);
                Self::Complete { parts, data }
            }
            answer => {
                let mut status = answer.into_status();
                status.metadata_mut().as_mut().insert(KEPT, key);
                Self::Lost(Box::new(status))
            }
        }
    }

    /// Returns the answer as a status: that of a failure.
    pub(crate) fn into_status(self) -> Status {
        match self {
            Self::Complete { parts, data } => data.status(&parts).unwrap_or_else(|| without_status(parts.status)),
            Self::Lost(error) => Status::from_error(error),
            Self::TimedOut => timed_out(),
        }
    }

    /// Returns the response for the caller.
    pub(crate) fn into_response<B>(self) -> Result<Response<ResponseBody<B>>, BoxError> {
        match self {
            Self::Complete { parts, data } => Ok(Response::from_parts(parts, ResponseBody::collected(data))),
            Self::Lost(error) => Err(error),
            Self::TimedOut => Ok(timed_out().into_http()),
        }
    }
}

fn timed_out() -> Status {
    Status::deadline_exceeded("the server has not answered in time")
}

/// The status of a response without one: a proxy's, or that of a stream that was reset.
fn without_status(http: StatusCode) -> Status {
    Status::unavailable(format!("the answer has the HTTP status {http}, and no gRPC status"))
}

impl Collected {
    /// The gRPC status. Without a body, the headers have it.
    pub(crate) fn status(&self, parts: &Parts) -> Option<Status> {
        Status::from_header_map(self.trailers.as_ref().unwrap_or(&parts.headers))
    }

    /// All data in one piece.
    pub(crate) fn into_bytes(self) -> Bytes {
        if self.more.is_empty() {
            return self.first.unwrap_or_default();
        }
        self.first
            .into_iter()
            .chain(self.more)
            .fold(BytesMut::new(), |mut all, data| {
                all.extend_from_slice(&data);
                all
            })
            .freeze()
    }

    fn push(&mut self, frame: Frame<Bytes>) {
        match frame.into_data() {
            Ok(data) if self.first.is_none() => self.first = Some(data),
            Ok(data) => self.more.push_back(data),
            Err(frame) => self.trailers = frame.into_trailers().ok(),
        }
    }

    fn pop(&mut self) -> Option<Frame<Bytes>> {
        if let Some(data) = self.first.take().or_else(|| self.more.pop_front()) {
            return Some(Frame::data(data));
        }
        self.trailers.take().map(Frame::trailers)
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.is_empty() && self.trailers.is_none()
    }
}

pin_project! {
    /// The body of a response.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    #[project = InnerProj]
    #[derive(Debug)]
    enum Inner<B> {
        Collected { data: Collected },
        Passed { #[pin] body: B },
    }
}

impl<B> ResponseBody<B> {
    fn collected(data: Collected) -> Self {
        Self { inner: Inner::Collected { data } }
    }

    pub(crate) fn passed(body: B) -> Self {
        Self { inner: Inner::Passed { body } }
    }
}

impl<B> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::collected(Collected::default())
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().inner.project() {
            InnerProj::Collected { data } => Poll::Ready(data.pop().map(Ok)),
            InnerProj::Passed { body } => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Collected { data } => data.is_empty(),
            Inner::Passed { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Collected { .. } => SizeHint::default(),
            Inner::Passed { body } => body.size_hint(),
        }
    }
}
