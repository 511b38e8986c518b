//! The service that the layer creates.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
#[cfg(feature = "connect")]
use futures_util::FutureExt as _;
use http::{Request, Response};
use tonic::{body::Body, codegen::StdError, server::NamedService};
use tower_service::Service;

use super::{protect::Protect, shared::Shared};
#[cfg(feature = "connect")]
use crate::connect::TranslatedService;
use crate::{future::ResponseFuture, grpc::lower_case_content_type};

/// A service whose calls can have idempotency keys. Created by [`IdempotencyLayer`](crate::IdempotencyLayer).
#[derive(Clone)]
pub struct Idempotency<S> {
    grpc: Protect<S>,
    /// Handles calls in other protocols, if the inner service supports them.
    #[cfg(feature = "connect")]
    translated: TranslatedService<Protect<S>>,
}

impl<S> Idempotency<S> {
    pub(super) fn new<R>(inner: S, shared: Arc<Shared>) -> Self
    where
        S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
        S::Error: Into<StdError> + Send + 'static,
        S::Future: Send + 'static,
        R: http_body::Body<Data = Bytes> + Send + 'static,
        R::Error: Into<StdError>,
    {
        let grpc = Protect::new(inner, shared);
        Self {
            #[cfg(feature = "connect")]
            translated: grpc.shared.translator.around(grpc.clone()),
            grpc,
        }
    }
}

impl<S, B, R> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<StdError> + Send + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.grpc.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut request = request.map(Body::new);
        lower_case_content_type(request.headers_mut());
        #[cfg(feature = "connect")]
        if self.grpc.shared.needs_translation(&request) {
            self.grpc.give_back_readiness(); // the translated call waits for readiness itself
            return ResponseFuture::boxed(self.translated.call(request).map(Ok));
        }
        self.grpc.call(request)
    }
}

impl<S: NamedService> NamedService for Idempotency<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: fmt::Debug> fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency").field("inner", &self.grpc.inner).finish_non_exhaustive()
    }
}
