//! [`InProcess`].

use std::{
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tonic::{body::Body, codegen::StdError};
use tower_service::Service;

/// The channel of a [`Harness`](super::Harness): sends the calls of a generated client to its service, in this process.
#[derive(Clone)]
pub struct InProcess {
    service: Arc<dyn DynService>,
}

impl InProcess {
    pub(super) fn new<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
        S::Error: Into<StdError>,
        S::Future: Send,
    {
        Self { service: Arc::new(Mutex::new(service)) }
    }
}

impl Service<Request<Body>> for InProcess {
    type Response = Response<Body>;
    type Error = StdError;
    type Future = BoxFuture<'static, Result<Response<Body>, StdError>>;

    /// Always ready: each call waits for its own clone of the service.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.service.call(request)
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

/// A service without its type, of which each call takes a clone.
trait DynService: Send + Sync {
    fn call(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, StdError>>;
}

impl<S> DynService for Mutex<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Error: Into<StdError>,
    S::Future: Send,
{
    fn call(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, StdError>> {
        let mut service = self.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            service.call(request).await.map_err(Into::into)
        })
    }
}
