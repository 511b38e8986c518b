//! The service that sends calls again.

use std::{
    fmt,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, select};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Body as HttpBody;
use http_body_util::Full;
use pin_project_lite::pin_project;
use tokio::time::{Timeout, sleep, timeout_at};
use tonic::body::Body;
use tonic_idempotency_wire::headers;
use tower_service::Service;

use crate::{
    Delivery, OperationKey,
    answer::{Answer, Attempt, ResponseBody},
    captured::{Captured, HEAD},
    head::Head,
    key::NewKeys,
    procedure::{Procedure, Procedures},
    settings::{Attempts, Settings},
    verdict::Verdict,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const KEY: HeaderName = HeaderName::from_static(headers::KEY);
const REPLAYED: HeaderName = HeaderName::from_static(headers::REPLAYED);

/// The time that a call may take, as gRPC has it.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// What all services of a layer share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) new_keys: NewKeys,
    pub(crate) procedures: Procedures,
    pub(crate) settings: Settings,
}

/// A service whose calls of opted-in procedures have a key, and are sent again with it: see
/// [`IdempotencyClientLayer`](crate::IdempotencyClientLayer).
pub struct IdempotencyClient<S> {
    inner: S,
    /// What further attempts are made with.
    again: Arc<Mutex<S>>,
    shared: Arc<Shared>,
}

impl<S: Clone> IdempotencyClient<S> {
    pub(crate) fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { again: Arc::new(Mutex::new(inner.clone())), inner, shared }
    }
}

impl<S, B> Service<Request<Body>> for IdempotencyClient<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<B>>;
    type Error = BoxError;
    type Future = ResponseFuture<S, S::Future, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(procedure) = self.shared.procedures.get(request.uri().path()) else {
            return ResponseFuture::passed(self.inner.call(request));
        };
        let (mut parts, body) = request.into_parts();
        let mut message = match Captured::read(body, self.shared.settings.max_request_bytes) {
            Captured::Message(message) => message,
            Captured::Other(body) => {
                tracing::warn!(
                    procedure = parts.uri.path(),
                    "the call is sent once, without a key: it is a stream, or too large"
                );
                return ResponseFuture::passed(self.inner.call(Request::from_parts(parts, body)));
            }
        };
        if procedure.takes_key {
            give_key(&mut parts, &mut message, procedure, &self.shared.new_keys);
        }
        let operation = Operation {
            again: Arc::clone(&self.again),
            attempts: Attempts::new(&self.shared.settings, timeout(&parts.headers)),
            head: Head::of(&parts),
            hedge_after: self.shared.settings.hedge_after.filter(|_| procedure.takes_key && procedure.waits),
            message: message.clone(),
            shared: Arc::clone(&self.shared),
        };
        let first = self.inner.call(Request::from_parts(parts, Body::new(Full::new(message))));
        match operation.hedge_after {
            None => {
                let end = operation.attempts.end(&self.shared.settings);
                ResponseFuture::first(operation, timeout_at(end, Attempt::new(first)))
            }
            Some(after) => ResponseFuture::again(operation.hedged(first, after)),
        }
    }
}

/// One operation, whose attempts all have the same key and message.
struct Operation<S> {
    again: Arc<Mutex<S>>,
    attempts: Attempts,
    head: Head,
    /// The time after which a second attempt is made beside the first.
    hedge_after: Option<Duration>,
    message: Bytes,
    shared: Arc<Shared>,
}

impl<S, B> Operation<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Waits for the first attempt, or for a second one beside it, as the server lets that one wait for the first.
    async fn hedged(mut self, sent: S::Future, after: Duration) -> Result<Response<ResponseBody<B>>, BoxError> {
        let (answer, made) = self.first_or_second(sent, after).await;
        self.attempts.have_been(made);
        match self.attempts.next(answer.verdict(), &self.shared.settings) {
            Some(pause) => self.again(pause).await,
            None => self.finish(answer),
        }
    }

    async fn first_or_second(&self, sent: S::Future, after: Duration) -> (Answer, u32) {
        let first = pin!(self.bounded(Attempt::new(sent)));
        let first = match select(first, pin!(sleep(after))).await {
            Either::Left((answer, _)) => return (answer, 1),
            Either::Right(((), first)) => first,
        };
        if !self.shared.settings.spend() {
            return (first.await, 1);
        }
        let second = pin!(self.bounded(self.send()));
        let answer = match select(first, second).await {
            Either::Left((answer, second)) if answer.verdict() != Verdict::Final => second.await,
            Either::Right((answer, first)) if answer.verdict() != Verdict::Final => first.await,
            Either::Left((answer, _)) | Either::Right((answer, _)) => answer,
        };
        (answer, 2)
    }

    /// Makes further attempts, the first of them after this pause.
    async fn again(mut self, mut pause: Duration) -> Result<Response<ResponseBody<B>>, BoxError> {
        loop {
            sleep(pause).await;
            let answer = self.bounded(self.send()).await;
            match self.attempts.next(answer.verdict(), &self.shared.settings) {
                Some(next) => pause = next,
                None => return self.finish(answer),
            }
        }
    }

    fn finish(&self, answer: Answer) -> Result<Response<ResponseBody<B>>, BoxError> {
        let mut response = answer.into_response()?;
        let replayed = response.headers().get(REPLAYED).is_some_and(|value| value == "true");
        let delivery = Delivery { attempts: self.attempts.made(), replayed };
        if delivery != Delivery::AT_ONCE {
            response.extensions_mut().insert(delivery);
        }
        Ok(response)
    }

    async fn send(&self) -> Answer {
        let mut service = self.again.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(error) = std::future::poll_fn(|cx| service.poll_ready(cx)).await {
            return Answer::Lost(error.into());
        }
        let request = self.head.request(Body::new(Full::new(self.message.clone())));
        Attempt::new(service.call(request)).await
    }

    /// Ends an attempt when its time is over.
    async fn bounded(&self, attempt: impl Future<Output = Answer>) -> Answer {
        timeout_at(self.attempts.end(&self.shared.settings), attempt).await.unwrap_or(Answer::TimedOut)
    }
}

/// Gives a request its key, in its head and, if the procedure has one, in its field: the caller's own, or a new one.
fn give_key(parts: &mut http::request::Parts, message: &mut Bytes, procedure: &Procedure, new_keys: &NewKeys) {
    let is_compressed = message.first() != Some(&0);
    let field = procedure.key_field.as_ref().filter(|_| !is_compressed);
    let in_field = field.and_then(|field| field.read(&message[HEAD..]));
    if !parts.headers.contains_key(KEY) {
        let own = parts.extensions.get().map(OperationKey::header_value);
        let own = own.or_else(|| HeaderValue::from_str(in_field.as_ref()?).ok());
        parts.headers.insert(KEY, own.unwrap_or_else(|| new_keys.make()));
    }
    if let (Some(field), None, Some(Ok(key))) = (field, in_field, parts.headers.get(KEY).map(HeaderValue::to_str)) {
        let mut framed = BytesMut::from(&message[..]);
        field.append(&mut framed, key);
        let length = u32::try_from(framed.len() - HEAD).unwrap_or(u32::MAX);
        framed[1..HEAD].copy_from_slice(&length.to_be_bytes());
        *message = framed.freeze();
    }
}

/// Returns the time that a call may take, if its head says so.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT)?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number.saturating_mul(3600)),
        "M" => Duration::from_secs(number.saturating_mul(60)),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

pin_project! {
    /// The future of a call.
    pub struct ResponseFuture<S, F, B> {
        #[pin]
        inner: Inner<S, F, B>,
    }
}

type Again<B> = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<B>>, BoxError>> + Send>>;

pin_project! {
    #[project = InnerProj]
    enum Inner<S, F, B> {
        /// A call that the layer leaves alone.
        Passed { #[pin] future: F },
        /// The first attempt, which is the only one of most calls.
        First { #[pin] attempt: Timeout<Attempt<F, B>>, operation: Option<Operation<S>> },
        /// Further attempts.
        Again { future: Again<B> },
    }
}

impl<S, F, B> ResponseFuture<S, F, B> {
    fn passed(future: F) -> Self {
        Self { inner: Inner::Passed { future } }
    }

    fn first(operation: Operation<S>, attempt: Timeout<Attempt<F, B>>) -> Self {
        Self { inner: Inner::First { attempt, operation: Some(operation) } }
    }

    fn again(future: impl Future<Output = Result<Response<ResponseBody<B>>, BoxError>> + Send + 'static) -> Self {
        Self { inner: Inner::Again { future: Box::pin(future) } }
    }
}

impl<S, B> Future for ResponseFuture<S, S::Future, B>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<ResponseBody<B>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.project().inner;
        loop {
            match inner.as_mut().project() {
                InnerProj::Passed { future } => {
                    let response = ready!(future.poll(cx)).map_err(Into::into)?;
                    return Poll::Ready(Ok(response.map(ResponseBody::passed)));
                }
                InnerProj::First { attempt, operation } => {
                    let answer = ready!(attempt.poll(cx)).unwrap_or(Answer::TimedOut);
                    let mut operation = operation.take().expect("it is not polled again");
                    match operation.attempts.next(answer.verdict(), &operation.shared.settings) {
                        Some(pause) => inner.set(Inner::Again { future: Box::pin(operation.again(pause)) }),
                        None => return Poll::Ready(operation.finish(answer)),
                    }
                }
                InnerProj::Again { future } => return future.as_mut().poll(cx),
            }
        }
    }
}

impl<S, F, B> fmt::Debug for ResponseFuture<S, F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

impl<S: Clone> Clone for IdempotencyClient<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), again: Arc::clone(&self.again), shared: Arc::clone(&self.shared) }
    }
}

impl<S> fmt::Debug for IdempotencyClient<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyClient").finish_non_exhaustive()
    }
}
