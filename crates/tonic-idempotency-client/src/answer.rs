//! The answer of one attempt, whole.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, Response, response::Parts};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::{Code, Status};

use crate::{BoxError, captured::HEAD, verdict::Verdict};

/// The answer of one attempt.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most answers are of the large variant, and a box is an allocation for each"
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

    /// Returns the error that an answer is; `None` if the call succeeded.
    pub(crate) fn error(&self) -> Option<Status> {
        match self {
            Self::Complete { parts, data } => {
                let status = Status::from_header_map(data.trailers.as_ref().unwrap_or(&parts.headers));
                let status = status
                    .unwrap_or_else(|| Status::unavailable(format!("HTTP status {}, without gRPC's", parts.status)));
                (status.code() != Code::Ok).then_some(status)
            }
            Self::Lost(error) => Some(match error.downcast_ref::<Status>() {
                Some(status) => Status::unavailable(status.message()),
                None => Status::unavailable(error.to_string()),
            }),
            Self::TimedOut => Some(timed_out()),
        }
    }

    /// Returns the headers, if there are any.
    pub(crate) fn headers(&self) -> Option<&HeaderMap> {
        match self {
            Self::Complete { parts, .. } => Some(&parts.headers),
            Self::Lost(_) | Self::TimedOut => None,
        }
    }

    /// Returns the first message, if it is in one piece and not compressed.
    pub(crate) fn message(&self) -> Option<&[u8]> {
        match self {
            Self::Complete { data, .. } => data.first.as_ref()?.get(HEAD..),
            Self::Lost(_) | Self::TimedOut => None,
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

impl Collected {
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
