//! The inner service, as the handler of a call.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Extensions, Request, Response};
use tonic::{body::Body, codegen::StdError};
use tower_service::Service;

use crate::{engine::handler::DynHandler, grpc::UnaryResponse};

/// A service that was polled ready, and the request for it.
pub(super) struct ReadyService<S> {
    pub(super) service: S,
    pub(super) request: Request<Body>,
}

impl<S, R> DynHandler<Result<UnaryResponse, S::Error>> for ReadyService<S>
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
