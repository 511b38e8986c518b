//! The inner service, as the handler of a call.

use std::future::poll_fn;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Extensions, Request, Response};
use tonic::{body::Body, codegen::StdError};
use tower_service::Service;

use crate::{
    engine::handler::{DynHandler, Handler},
    grpc::{UnaryResponse, WholeBody},
};

/// A service, and the request for it.
#[derive(Clone)]
pub(super) struct ReadyService<S> {
    service: S,
    request: Request<WholeBody>,
    /// Whether it was polled ready: a further attempt is another clone.
    is_ready: bool,
}

impl<S> ReadyService<S> {
    /// A service that was polled ready.
    pub(super) fn new(service: S, request: Request<WholeBody>) -> Self {
        Self { service, request, is_ready: true }
    }
}

impl<S, R> DynHandler<Result<UnaryResponse, S::Error>> for ReadyService<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Send,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    fn extensions_mut(&mut self) -> &mut Extensions {
        self.request.extensions_mut()
    }

    fn repeated(&self) -> Option<Handler<Result<UnaryResponse, S::Error>>> {
        Some(Box::new(Self { is_ready: false, ..self.clone() }))
    }

    fn run(self: Box<Self>) -> BoxFuture<'static, Result<UnaryResponse, S::Error>> {
        let Self { mut service, request, is_ready } = *self;
        let request = request.map(Body::new);
        if is_ready {
            return Box::pin(read(service.call(request)));
        }
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await?;
            read(service.call(request)).await
        })
    }
}

/// Reads the response of a handler.
async fn read<R, E>(response: impl Future<Output = Result<Response<R>, E>>) -> Result<UnaryResponse, E>
where
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<StdError>,
{
    let response = UnaryResponse::read(response.await?).await;
    Ok(response.map_or_else(UnaryResponse::failed, UnaryResponse::without_outcome))
}
