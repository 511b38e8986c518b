//! The service around which the layer is, for what is sent after the first attempt.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tonic::body::Body;
use tower_service::Service;

use crate::{
    BoxError,
    answer::{Answer, Attempt},
};

/// The service around which the layer is.
#[derive(Debug)]
pub(crate) struct Peer<S> {
    service: Mutex<S>,
    max_response_bytes: usize,
    /// Whether its server has said that it has no `WaitOperation`.
    without_wait: AtomicBool,
}

impl<S> Peer<S> {
    pub(crate) fn new(service: S, max_response_bytes: usize) -> Self {
        Self { service: Mutex::new(service), max_response_bytes, without_wait: AtomicBool::new(false) }
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
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(error) = poll_fn(|cx| service.poll_ready(cx)).await {
            return Answer::Lost(error.into());
        }
        Attempt::new(service.call(request), self.max_response_bytes).await
    }
}

/// A [`Peer`] without its type.
pub(crate) trait DynPeer: Send + Sync {
    fn send(&self, request: Request<Body>) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>>;

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
    fn send(&self, request: Request<Body>) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        Box::pin(Peer::send(self, request))
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
