use std::{
    mem,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use tonic::{body::Body, codegen::StdError, server::NamedService};
use tower_service::Service;

use super::Translator;
use crate::ResponseFuture;

/// A gRPC service that answers Connect as well. Made by [`ConnectLayer`](super::ConnectLayer).
#[derive(Clone, Debug)]
pub struct Connect<S> {
    inner: S,
    translator: Translator,
}

impl<S> Connect<S> {
    pub(super) fn new(inner: S, translator: Translator) -> Self {
        Self { inner, translator }
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
        let request = request.map(Body::new);
        if !self.translator.is_connect(&request) {
            return ResponseFuture::pass_through(self.inner.call(request));
        }
        // The one that is ready; a clone takes its place.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        ResponseFuture::boxed(self.translator.call(request, inner).map(Ok))
    }
}

impl<S: NamedService> NamedService for Connect<S> {
    const NAME: &'static str = S::NAME;
}
