//! The future of a call.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use pin_project_lite::pin_project;
use tokio::time::Timeout;
use tonic::body::Body;
use tower_service::Service;

use crate::{
    BoxError,
    attempt::{AttemptFuture, AttemptOutcome, ResponseBody},
    client_call::ClientCall,
};

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
        /// A call that the layer does not touch.
        Passed { #[pin] future: F },
        /// The first attempt, which is the only one of most calls.
        First { #[pin] attempt: Timeout<AttemptFuture<F, B>>, call: Option<ClientCall<S>> },
        /// Further attempts.
        Again { future: Again<B> },
    }
}

impl<S, F, B> ResponseFuture<S, F, B> {
    pub(crate) fn passed(future: F) -> Self {
        Self { inner: Inner::Passed { future } }
    }

    pub(crate) fn first(call: ClientCall<S>, attempt: Timeout<AttemptFuture<F, B>>) -> Self {
        Self { inner: Inner::First { attempt, call: Some(call) } }
    }

    pub(crate) fn again(
        future: impl Future<Output = Result<Response<ResponseBody<B>>, BoxError>> + Send + 'static,
    ) -> Self {
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
                InnerProj::First { attempt, call } => {
                    let answer = ready!(attempt.poll(cx)).unwrap_or(AttemptOutcome::TimedOut);
                    let mut call = call.take().expect("it is not polled again");
                    match call.next(&answer) {
                        Some(pause) => inner.set(Inner::Again { future: Box::pin(call.again(answer, pause)) }),
                        None => return Poll::Ready(call.finish(answer)),
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
