//! A handler without its type, so that the engine's types do not name it and little is moved around.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Extensions, Request, Response};
use tonic::{body::Body, codegen::StdError};
use tower_service::Service;

use crate::grpc::UnaryResponse;

/// The handler of a call, with its request. It has not begun.
pub(crate) type Handler<E> = Box<dyn DynHandler<E>>;

/// A handler that can be run once.
pub(crate) trait DynHandler<E>: Send {
    /// The extensions of its request.
    fn extensions_mut(&mut self) -> &mut Extensions;

    /// Runs it, to the end of its response.
    fn run(self: Box<Self>) -> BoxFuture<'static, Result<UnaryResponse, E>>;
}

/// A service that was polled ready, and the request for it.
pub(crate) struct ReadyService<S> {
    pub(crate) service: S,
    pub(crate) request: Request<Body>,
}

impl<S, R> DynHandler<S::Error> for ReadyService<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Send,
    S::Error: Send,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    fn extensions_mut(&mut self) -> &mut Extensions {
        self.request.extensions_mut()
    }

    fn run(self: Box<Self>) -> BoxFuture<'static, Result<UnaryResponse, S::Error>> {
        let Self { mut service, request } = *self;
        let response = service.call(request);
        Box::pin(async move {
            let response = response.await?;
            let response = UnaryResponse::read(response).await;
            Ok(response.map_or_else(UnaryResponse::failed, UnaryResponse::without_outcome))
        })
    }
}
