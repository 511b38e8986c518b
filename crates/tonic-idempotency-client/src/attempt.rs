//! The answer of one attempt, whole.

use std::{
    collections::VecDeque,
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, Response, StatusCode, response::Parts};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tonic::{Code, ConnectError, Status};
use tonic_idempotency_wire::{IdempotencyStatus, Reason, headers};

use crate::{
    BoxError, Delivery, Unresolved,
    request_body::HEAD,
    verdict::{Others, STATUS, Said, Verdict},
};

/// The frames that are read before others have their turn.
const FRAMES: usize = 32;

const REPLAYED: HeaderName = HeaderName::from_static(headers::REPLAYED);

/// The answer of one attempt.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most answers are of the large variant, and a box is an allocation for each"
)]
pub(crate) enum AttemptOutcome {
    /// The server, or something before it, has answered.
    Complete { parts: Parts, data: CollectedBody },
    /// The connection could not be made, or was lost before the answer was there.
    Lost(BoxError),
    /// The attempt's time is over.
    TimedOut,
    /// The body is larger than the limit.
    TooLarge(LargeResponse),
}

/// A response that is not read, as it is larger than the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargeResponse {
    /// Whether its head has a status: the operation has ended.
    has_status: bool,
    limit: usize,
    size: usize,
}

/// Says, in the extensions of a response that the layer makes itself, that its operation is not to be sent again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastWord;

/// The body of an answer: its data, and its trailers.
#[derive(Debug, Default)]
pub(crate) struct CollectedBody {
    first: Option<Bytes>,
    more: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
}

pin_project! {
    /// The future of one attempt.
    #[project = AttemptFutureProj]
    pub(crate) struct AttemptFuture<F, B> {
        limit: usize,
        #[pin]
        stage: Stage<F, B>,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F, B> {
        Sent { #[pin] response: F },
        Received { parts: Option<Parts>, #[pin] body: B, data: CollectedBody, size: usize },
    }
}

impl<F, B> AttemptFuture<F, B> {
    /// The attempt whose response has at most this many bytes.
    pub(crate) fn new(sent: F, limit: usize) -> Self {
        Self { limit, stage: Stage::Sent { response: sent } }
    }
}

impl<F, B, E> Future for AttemptFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Output = AttemptOutcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<AttemptOutcome> {
        let AttemptFutureProj { limit, mut stage } = self.project();
        for _ in 0..FRAMES {
            match stage.as_mut().project() {
                StageProj::Sent { response } => match ready!(response.poll(cx)) {
                    Ok(response) => {
                        let (parts, body) = response.into_parts();
                        stage.set(Stage::Received {
                            parts: Some(parts),
                            body,
                            data: CollectedBody::default(),
                            size: 0,
                        });
                    }
                    Err(error) => return Poll::Ready(AttemptOutcome::Lost(error.into())),
                },
                StageProj::Received { parts, body, data, size } => match ready!(body.poll_frame(cx)) {
                    Some(Ok(frame)) => {
                        *size += frame.data_ref().map_or(0, Bytes::len);
                        data.push(frame);
                        if *size > limit.saturating_add(HEAD) {
                            let has_status = parts.as_ref().is_some_and(has_status);
                            let size = data.message_size().unwrap_or(*size);
                            return Poll::Ready(AttemptOutcome::TooLarge(LargeResponse {
                                has_status,
                                limit: *limit,
                                size,
                            }));
                        }
                    }
                    Some(Err(error)) => return Poll::Ready(AttemptOutcome::Lost(error.into())),
                    None => {
                        let parts = parts.take().expect("it is not polled again");
                        return Poll::Ready(AttemptOutcome::Complete { parts, data: std::mem::take(data) });
                    }
                },
            }
        }
        // A body that is always ready does not keep the attempt from its end.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl AttemptOutcome {
    /// Returns its meaning for the operation.
    pub(crate) fn verdict(&self, others: Others) -> Verdict {
        match self {
            Self::Complete { parts, data } => Verdict::of(data.said(parts), others),
            Self::Lost(_) => Verdict::Again(None),
            Self::TimedOut => Verdict::Late,
            Self::TooLarge(response) if response.has_status => Verdict::Ended,
            Self::TooLarge(_) => Verdict::Unknown,
        }
    }

    /// Whether the same call can never get another answer, although this one does not tell how the operation ended.
    pub(crate) fn is_last_word(&self) -> bool {
        match self {
            Self::Complete { parts, .. } if parts.extensions.get::<LastWord>().is_some() => true,
            answer => answer.refusal() == Some(Reason::KeyExpired),
        }
    }

    /// Whether another answer is to be expected only after a change of the server or of its surroundings.
    pub(crate) fn is_stuck(&self) -> bool {
        match self.unresolved() {
            _ if self.is_last_word() => false,
            Some(unresolved) => unresolved.is_stuck,
            None => self.is_unauthenticated() || self.verdict(Others::Over) == Verdict::Unknown,
        }
    }

    /// Whether it shows that the server has the layer for the procedure, or that it has not. `None` if it shows neither.
    pub(crate) fn shows_protection(&self) -> Option<bool> {
        match self {
            Self::Complete { parts, .. } if has_status(parts) => Some(true),
            answer if answer.has_succeeded() => Some(false),
            Self::Complete { parts, data } => data.said(parts).is_of_a_protected_call().then_some(true),
            Self::TooLarge(response) => response.has_status.then_some(true),
            Self::Lost(_) | Self::TimedOut => None,
        }
    }

    /// Names it for the log.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Complete { parts, data } => match (self.refusal(), data.status(parts)) {
                (Some(reason), _) => reason.to_string(),
                (None, Some(status)) => format!("{:?}", status.code()),
                (None, None) => format!("HTTP {}", parts.status.as_u16()),
            },
            Self::Lost(error) => match (self.unresolved(), error.downcast_ref::<Status>()) {
                (Some(unresolved), _) => unresolved.reason.clone(),
                (None, Some(status)) => format!("{:?}", status.code()),
                (None, None) => "no answer".to_owned(),
            },
            Self::TimedOut => "no answer in time".to_owned(),
            Self::TooLarge(_) => "a response that is too large".to_owned(),
        }
    }

    /// The layer's refusal that it is.
    fn refusal(&self) -> Option<Reason> {
        match self {
            Self::Complete { parts, data } => data.status(parts).and_then(|status| Reason::of(&status)),
            Self::Lost(error) => error.downcast_ref().and_then(Reason::of),
            Self::TimedOut | Self::TooLarge(_) => None,
        }
    }

    /// Whether the attempt may still arrive at its server, or run there: it was sent, and the layer has not answered.
    fn may_be_under_way(&self) -> bool {
        match self {
            Self::Complete { parts, data } => !self.has_succeeded() && !data.said(parts).is_the_layers(),
            Self::Lost(error) => !is_of_connecting(&**error),
            Self::TimedOut => true,
            Self::TooLarge(_) => false,
        }
    }

    /// The time at which it was given up, or an attempt before it that a layer has made, if that may be under way.
    pub(crate) fn given_up(&self) -> Option<Instant> {
        match self.unresolved() {
            Some(unresolved) => unresolved.given_up,
            None => self.may_be_under_way().then(Instant::now),
        }
    }

    /// The unresolved call that it is, if it comes from a layer.
    fn unresolved(&self) -> Option<&Unresolved> {
        match self {
            Self::Lost(error) => Unresolved::among(&**error),
            Self::Complete { .. } | Self::TimedOut | Self::TooLarge(_) => None,
        }
    }

    /// Returns the error that an answer is; `None` if the call succeeded.
    pub(crate) fn error(&self) -> Option<Status> {
        match self {
            Self::Complete { parts, data } => {
                let status = data.status(parts).unwrap_or_else(|| without_status(parts.status));
                (status.code() != Code::Ok).then_some(status)
            }
            Self::Lost(error) => Some(match error.downcast_ref::<Status>() {
                Some(status) => Status::unavailable(status.message()),
                None => Status::unavailable(error.to_string()),
            }),
            Self::TimedOut => Some(timed_out()),
            Self::TooLarge(response) => Some(response.status()),
        }
    }

    /// Whether its status is that of a success.
    pub(crate) fn has_succeeded(&self) -> bool {
        match self {
            Self::Complete { parts, data } => {
                data.trailers.as_ref().unwrap_or(&parts.headers).get(STATUS).is_some_and(|status| status == "0")
            }
            Self::Lost(_) | Self::TimedOut | Self::TooLarge(_) => false,
        }
    }

    /// Whether it says that the caller is not authenticated.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        match self {
            Self::Complete { parts, .. } if parts.status == StatusCode::UNAUTHORIZED => true,
            Self::Lost(error) => {
                error.downcast_ref::<Status>().is_some_and(|status| status.code() == Code::Unauthenticated)
            }
            answer => answer.error().is_some_and(|status| status.code() == Code::Unauthenticated),
        }
    }

    /// Returns the headers, if there are any.
    pub(crate) fn headers(&self) -> Option<&HeaderMap> {
        match self {
            Self::Complete { parts, .. } => Some(&parts.headers),
            Self::Lost(_) | Self::TimedOut | Self::TooLarge(_) => None,
        }
    }

    /// Returns the first message, if it is in one piece and not compressed.
    pub(crate) fn message(&self) -> Option<&[u8]> {
        match self {
            Self::Complete { data, .. } => data.first.as_ref()?.get(HEAD..),
            Self::Lost(_) | Self::TimedOut | Self::TooLarge(_) => None,
        }
    }

    /// Returns how the answer came about, as the layer has noted.
    pub(crate) fn delivery(&self) -> Delivery {
        match self {
            Self::Complete { parts, .. } => Delivery::of(&parts.extensions),
            Self::Lost(_) | Self::TimedOut | Self::TooLarge(_) => match self.unresolved() {
                Some(Unresolved { attempts, .. }) => Delivery { attempts: *attempts, ..Delivery::AT_ONCE },
                None => Delivery::AT_ONCE,
            },
        }
    }

    /// The time for which the key still protects, if the server says so.
    pub(crate) fn protected_for(&self) -> Option<Duration> {
        let seconds = match self {
            Self::Complete { parts, data } => {
                let in_trailers = data.trailers.as_ref().and_then(|trailers| trailers.get(headers::EXPIRES));
                parts.headers.get(headers::EXPIRES).or(in_trailers)
            }
            Self::Lost(error) => error.downcast_ref::<Status>()?.metadata().as_ref().get(headers::EXPIRES),
            Self::TimedOut | Self::TooLarge(_) => None,
        };
        seconds?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
    }

    /// Returns the answer as a status: that of a failure.
    pub(crate) fn into_status(self) -> Status {
        match self {
            Self::Complete { parts, data } => data.status(&parts).unwrap_or_else(|| without_status(parts.status)),
            Self::Lost(error) => Status::from_error(error),
            Self::TimedOut => timed_out(),
            Self::TooLarge(response) => response.status(),
        }
    }

    /// Returns the response for the caller.
    pub(crate) fn into_response<B>(self) -> Result<Response<ResponseBody<B>>, BoxError> {
        match self {
            Self::Complete { parts, data } => Ok(Response::from_parts(parts, ResponseBody::collected(data))),
            Self::Lost(error) => Err(error),
            Self::TimedOut => Ok(timed_out().into_http()),
            Self::TooLarge(response) => {
                let mut told = response.status().into_http();
                told.extensions_mut().insert(LastWord);
                Ok(told)
            }
        }
    }
}

impl LargeResponse {
    fn status(self) -> Status {
        let Self { has_status, limit, size } = self;
        let ended = if has_status { "the operation has ended, but " } else { "" };
        Status::out_of_range(format!("{ended}the answer has {size} bytes, more than {limit} (max_response_bytes)"))
    }
}

/// Whether the head of a response has the status of an operation.
fn has_status(parts: &Parts) -> bool {
    IdempotencyStatus::of(&parts.headers).is_some()
}

/// Whether there was no connection yet, so that nothing was sent.
fn is_of_connecting(error: &(dyn Error + 'static)) -> bool {
    error.is::<ConnectError>() || error.source().is_some_and(is_of_connecting)
}

fn timed_out() -> Status {
    Status::deadline_exceeded("the server has not answered in time")
}

/// The status of a response without one: a proxy's, or that of a stream that was reset.
fn without_status(http: StatusCode) -> Status {
    Status::unavailable(format!("the answer has the HTTP status {http}, and no gRPC status"))
}

impl CollectedBody {
    /// Returns the parts of the answer that its verdict depends on.
    fn said<'a>(&'a self, parts: &'a Parts) -> Said<'a> {
        Said {
            http: parts.status,
            headers: &parts.headers,
            trailers: self.trailers.as_ref(),
            has_message: self.first.as_ref().map_or(0, Bytes::len) + self.more.iter().map(Bytes::len).sum::<usize>()
                >= HEAD,
        }
    }

    /// The size of the message, as its frame says, if the frame's head is there.
    fn message_size(&self) -> Option<usize> {
        let head: Vec<u8> = self.first.iter().chain(&self.more).flatten().take(HEAD).copied().collect();
        usize::try_from(u32::from_be_bytes(*head.get(1..)?.first_chunk()?)).ok()
    }

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
        Collected { data: CollectedBody },
        Passed { #[pin] body: B },
    }
}

impl<B> ResponseBody<B> {
    fn collected(data: CollectedBody) -> Self {
        Self { inner: Inner::Collected { data } }
    }

    pub(crate) fn passed(body: B) -> Self {
        Self { inner: Inner::Passed { body } }
    }
}

impl<B> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::collected(CollectedBody::default())
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

/// Returns whether these headers of a response say that it is that of an earlier attempt.
pub(crate) fn was_replayed(headers: &HeaderMap) -> bool {
    headers.get(REPLAYED).is_some_and(|value| value == "true")
}
