//! The future of the services.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Response;
use pin_project_lite::pin_project;
use tonic::{body::Body, codegen::StdError};

pin_project! {
    /// The future of [`Idempotency`](crate::layer::Idempotency) and of the Connect service.
    pub struct ResponseFuture<F, E> {
        #[pin]
        kind: Kind<F, E>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<F, E> {
        PassThrough { #[pin] inner: F },
        Boxed { inner: Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>> },
    }
}

impl<F, E> ResponseFuture<F, E> {
    /// Returns the response of the inner service.
    pub(crate) fn pass_through(inner: F) -> Self {
        Self { kind: Kind::PassThrough { inner } }
    }

    pub(crate) fn boxed(inner: impl Future<Output = Result<Response<Body>, E>> + Send + 'static) -> Self {
        Self { kind: Kind::Boxed { inner: Box::pin(inner) } }
    }
}

impl<F, E, R> Future for ResponseFuture<F, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    type Output = Result<Response<Body>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            KindProjection::PassThrough { inner } => inner.poll(cx).map_ok(|response| response.map(Body::new)),
            KindProjection::Boxed { inner } => inner.as_mut().poll(cx),
        }
    }
}

impl<F, E> fmt::Debug for ResponseFuture<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
