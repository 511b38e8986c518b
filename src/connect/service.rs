//! The service that adds Connect.

use std::{
    fmt,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use tonic::{body::Body, codegen::StdError, server::NamedService};
use tower_service::Service;

use super::translator::{TranslatedService, Translator};
use crate::{future::ResponseFuture, grpc::lower_case_content_type};

/// A gRPC service that also supports Connect. Created by [`ConnectLayer`](super::ConnectLayer).
#[derive(Clone)]
pub struct Connect<S> {
    inner: S,
    translated: TranslatedService<S>,
    translator: Translator,
}

impl<S> Connect<S> {
    pub(super) fn new(inner: S, translated: TranslatedService<S>, translator: Translator) -> Self {
        Self { inner, translated, translator }
    }
}

impl<S, B, R> Service<Request<B>> for Connect<S>
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
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut request = request.map(Body::new);
        lower_case_content_type(request.headers_mut());
        if !self.translator.is_connect(&request) {
            return ResponseFuture::pass_through(self.inner.call(request));
        }
        // Gives up the readiness of the inner service: the translated call waits for readiness itself.
        self.inner = self.inner.clone();
        ResponseFuture::boxed(self.translated.call(request).map(Ok))
    }
}

impl<S: NamedService> NamedService for Connect<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: fmt::Debug> fmt::Debug for Connect<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect").field("inner", &self.inner).finish_non_exhaustive()
    }
}
