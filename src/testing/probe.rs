//! Watches the service behind the layer.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response};
use tonic::{Status, body::Body};
use tower_service::Service;

use super::{lock, process::Process, server::Crash};
use crate::telemetry::Chain;

/// A call of the harness, as the channel and the service behind the layer see it. It comes with the request's extensions.
#[derive(Clone, Debug, Default)]
pub(super) struct HarnessCall(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    runs: AtomicUsize,
    cause: Mutex<Option<String>>,
    unanswered: AtomicBool,
}

impl HarnessCall {
    /// Returns how often the call's handler has run.
    pub(super) fn runs(&self) -> usize {
        self.0.runs.load(Ordering::SeqCst)
    }

    /// Returns the cause of the handler's error, which its client does not see.
    pub(super) fn cause(&self) -> Option<String> {
        lock(&self.0.cause).clone()
    }

    /// Returns whether no answer came to the last request.
    pub(super) fn is_unanswered(&self) -> bool {
        self.0.unanswered.load(Ordering::SeqCst)
    }

    pub(super) fn set_unanswered(&self, unanswered: bool) {
        self.0.unanswered.store(unanswered, Ordering::SeqCst);
    }

    fn failed(&self, status: &Status) {
        let cause = std::error::Error::source(status).map(|cause| Chain(cause).to_string());
        *lock(&self.0.cause) = cause;
    }
}

/// Counts the calls of a service, finds the causes of its errors, and ends with its process.
#[derive(Clone, Debug)]
pub(super) struct Probe<S> {
    inner: S,
    process: Process,
    runs: Arc<AtomicUsize>,
}

impl<S> Probe<S> {
    pub(super) fn new(inner: S, process: Process, runs: Arc<AtomicUsize>) -> Self {
        Self { inner, process, runs }
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let attempt = request.extensions().get::<HarnessCall>().cloned().unwrap_or_default();
        let crash = request.extensions_mut().remove::<Crash>();
        attempt.0.runs.fetch_add(1, Ordering::SeqCst);
        self.runs.fetch_add(1, Ordering::SeqCst);
        let (process, response) = (self.process.clone(), self.inner.call(request));
        Box::pin(async move {
            let Some(crash) = crash else {
                let response = process.live(response).await?;
                if let Some(status) = response.extensions().get::<Status>() {
                    attempt.failed(status);
                }
                return Ok(response);
            };
            drop(process.live(response).await);
            crash.strike(&process).await
        })
    }
}
