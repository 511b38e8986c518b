//! The inner service of the layer, for requests after the first attempt.

use std::{
    collections::HashSet,
    future::poll_fn,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tonic::body::Body;
use tower_service::Service;

use crate::{
    BoxError,
    attempt::{AttemptFuture, AttemptOutcome},
    expiry::Expiry,
};

/// The inner service of the layer.
#[derive(Debug)]
pub(crate) struct Peer<S> {
    service: Mutex<S>,
    max_response_bytes: usize,
    /// The procedures whose last success had no status. The server may lack the layer for them.
    unprotected: Mutex<HashSet<String>>,
    /// Whether there are such procedures.
    are_some_unprotected: AtomicBool,
    /// Whether its server has said that it has no `WaitOperation`.
    without_wait: AtomicBool,
}

impl<S> Peer<S> {
    pub(crate) fn new(service: S, max_response_bytes: usize) -> Self {
        let (unprotected, are_some_unprotected, without_wait) = Default::default();
        Self { service: Mutex::new(service), max_response_bytes, unprotected, are_some_unprotected, without_wait }
    }

    /// Notes whether a success had a status.
    pub(crate) fn succeeded(&self, procedure: &str, has_status: bool) {
        if has_status && !self.are_some_unprotected.load(Ordering::Relaxed) {
            return;
        }
        let mut unprotected = self.unprotected.lock().unwrap_or_else(PoisonError::into_inner);
        if has_status {
            unprotected.remove(procedure);
        } else if unprotected.insert(procedure.to_owned()) {
            tracing::warn!(
                procedure,
                "a success has no idempotency-status: does its server have the layer? Without it, each attempt of a call runs"
            );
        }
        self.are_some_unprotected.store(!unprotected.is_empty(), Ordering::Relaxed);
    }

    /// Returns whether its server may lack the layer for this procedure.
    pub(crate) fn is_unprotected(&self, procedure: &str) -> bool {
        self.are_some_unprotected.load(Ordering::Relaxed)
            && self.unprotected.lock().unwrap_or_else(PoisonError::into_inner).contains(procedure)
    }
}

impl<S, B> Peer<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Makes one attempt.
    async fn send(&self, request: Request<Body>) -> AttemptOutcome {
        match self.ready().await {
            Ok(service) => self.attempt(service, request).await,
            Err(lost) => lost,
        }
    }

    /// Makes one attempt; `None` if it is not sent, as this time has come: the machine may have slept until now.
    pub(crate) async fn send_before(&self, until: Expiry, request: Request<Body>) -> Option<AttemptOutcome> {
        match self.ready().await {
            Ok(_) if until.has_come() => None,
            Ok(service) => Some(self.attempt(service, request).await),
            Err(lost) => Some(lost),
        }
    }

    /// Returns the service when it is ready.
    async fn ready(&self) -> Result<S, AttemptOutcome> {
        let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match poll_fn(|cx| service.poll_ready(cx)).await {
            Ok(()) => Ok(service),
            Err(error) => Err(AttemptOutcome::Lost(error.into())),
        }
    }

    fn attempt(&self, mut ready: S, request: Request<Body>) -> AttemptFuture<S::Future, B> {
        AttemptFuture::new(ready.call(request), self.max_response_bytes)
    }
}

/// A [`Peer`] that hides the type of its service.
pub(crate) trait DynPeer: Send + Sync {
    /// Makes one attempt.
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, AttemptOutcome>;

    /// Makes one attempt; `None` if it is not sent, as this time has come.
    fn send_before(&self, until: Expiry, request: Request<Body>) -> BoxFuture<'_, Option<AttemptOutcome>>;

    /// Whether its server has said that it has no `WaitOperation`.
    fn without_wait(&self) -> &AtomicBool;
}

impl<S, B> DynPeer for Peer<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(Peer::send(self, request))
    }

    fn send_before(&self, until: Expiry, request: Request<Body>) -> BoxFuture<'_, Option<AttemptOutcome>> {
        Box::pin(Peer::send_before(self, until, request))
    }

    fn without_wait(&self) -> &AtomicBool {
        &self.without_wait
    }
}

impl dyn DynPeer {
    pub(crate) fn may_wait(&self) -> bool {
        !self.without_wait().load(Ordering::Relaxed)
    }

    pub(crate) fn cannot_wait(&self) {
        self.without_wait().store(true, Ordering::Relaxed);
    }
}
