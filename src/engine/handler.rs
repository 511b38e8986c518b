//! Handlers whose types are not known: so that the engine's do not name them, and what is moved is small.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Extensions, Request, Response};
use tonic::{body::Body, codegen::StdError};
use tower_service::Service;

use crate::grpc::UnaryResponse;

/// The handler of a call, with its request. It has not begun.
pub(crate) type Handler<E> = Box<dyn DynHandler<E>>;

/// What a [`Handler`] is.
pub(crate) trait DynHandler<E>: Send {
    /// What it finds in its request beside the message.
    fn extensions_mut(&mut self) -> &mut Extensions;

    /// Runs it, to the end of its response.
    fn run(self: Box<Self>) -> BoxFuture<'static, Result<UnaryResponse, E>>;
}

/// A service that is ready, and the request that it is to answer.
pub(crate) struct Ready<S> {
    pub(crate) service: S,
    pub(crate) request: Request<Body>,
}

impl<S, R> DynHandler<S::Error> for Ready<S>
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
            Ok(UnaryResponse::read(response).await.unwrap_or_else(UnaryResponse::failed))
        })
    }
}
