//! The answer of one attempt, whole.

use std::{
    collections::VecDeque,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Response, response::Parts};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use pin_project_lite::pin_project;
use tonic::Status;

use crate::verdict::Verdict;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The answer of one attempt.
#[derive(Debug)]
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

impl Answer {
    /// Waits for the whole answer.
    pub(crate) async fn of<B, E>(sent: impl Future<Output = Result<Response<B>, E>>) -> Self
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
        E: Into<BoxError>,
    {
        let (parts, body) = match sent.await {
            Ok(response) => response.into_parts(),
            Err(error) => return Self::Lost(error.into()),
        };
        match Collected::from_body(body).await {
            Ok(data) => Self::Complete { parts, data },
            Err(error) => Self::Lost(error),
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Complete { parts, data } => {
                // Without a body, the headers have the status.
                Verdict::of(parts.status, data.trailers.as_ref().unwrap_or(&parts.headers))
            }
            Self::Lost(_) | Self::TimedOut => Verdict::Again(None),
        }
    }

    /// Returns the response for the caller.
    pub(crate) fn into_response<B>(self) -> Result<Response<ResponseBody<B>>, BoxError> {
        match self {
            Self::Complete { parts, data } => Ok(Response::from_parts(parts, ResponseBody::collected(data))),
            Self::Lost(error) => Err(error),
            Self::TimedOut => Ok(Status::deadline_exceeded("the server has not answered in time").into_http()),
        }
    }
}

impl Collected {
    async fn from_body<B>(body: B) -> Result<Self, BoxError>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let mut collected = Self::default();
        let mut body = pin!(body);
        while let Some(frame) = body.frame().await {
            match frame.map_err(Into::into)?.into_data() {
                Ok(data) if collected.first.is_none() => collected.first = Some(data),
                Ok(data) => collected.more.push_back(data),
                Err(frame) => collected.trailers = frame.into_trailers().ok(),
            }
        }
        Ok(collected)
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
