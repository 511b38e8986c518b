//! Watches the service behind the layer.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response};
use tonic::{Status, body::Body};
use tower_service::Service;

use crate::telemetry::Chain;

/// A call of the harness, as the service behind the layer sees it. It comes with the request's extensions.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    runs: AtomicUsize,
    cause: Mutex<Option<String>>,
}

impl Attempt {
    /// How often the call's handler has run.
    pub(super) fn runs(&self) -> usize {
        self.0.runs.load(Ordering::SeqCst)
    }

    /// The cause of the handler's error, which its client does not see.
    pub(super) fn cause(&self) -> Option<String> {
        self.0.cause.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn failed(&self, status: &Status) {
        let cause = std::error::Error::source(status).map(|cause| Chain(cause).to_string());
        *self.0.cause.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }
}

/// Counts the calls of a service, and finds the causes of its errors.
#[derive(Clone, Debug)]
pub(super) struct Probe<S> {
    inner: S,
    runs: Arc<AtomicUsize>,
}

impl<S> Probe<S> {
    pub(super) fn new(inner: S, runs: Arc<AtomicUsize>) -> Self {
        Self { inner, runs }
    }
}

impl<S, B> Service<Request<Body>> for Probe<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let attempt = request.extensions().get::<Attempt>().cloned().unwrap_or_default();
        attempt.0.runs.fetch_add(1, Ordering::SeqCst);
        self.runs.fetch_add(1, Ordering::SeqCst);
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await?;
            if let Some(status) = response.extensions().get::<Status>() {
                attempt.failed(status);
            }
            Ok(response)
        })
    }
}
