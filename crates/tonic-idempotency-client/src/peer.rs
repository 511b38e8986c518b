//! The inner service of the layer, for requests after the first attempt.

use std::{
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
    known_procedure::KnownProcedure,
};

/// The inner service of the layer.
#[derive(Debug)]
pub(crate) struct Peer<S> {
    service: Mutex<S>,
    max_response_bytes: usize,
    /// The procedures of the layer, by their numbers.
    procedures: Vec<KnownProcedure>,
    /// Whether its server has said that it has no `WaitOperation`.
    without_wait: AtomicBool,
}

impl<S> Peer<S> {
    /// The server of a layer with this number of procedures.
    pub(crate) fn new(service: S, procedures: usize, max_response_bytes: usize) -> Self {
        let procedures = std::iter::repeat_with(KnownProcedure::default).take(procedures).collect();
        Self { service: Mutex::new(service), max_response_bytes, procedures, without_wait: AtomicBool::new(false) }
    }

    /// Returns the knowledge of the procedure with this number.
    pub(crate) fn procedure(&self, number: usize) -> &KnownProcedure {
        &self.procedures[number]
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
    pub(crate) async fn send(&self, request: Request<Body>) -> AttemptOutcome {
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
