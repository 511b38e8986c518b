//! The gRPC part of the service: sends each call along its route.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body, codegen::StdError};
use tower_service::Service;

use super::{
    read::{read, read_without_key},
    route::{Route, route},
    shared::{Protected, RequestLimits, Shared},
};
use crate::{
    engine::{
        admission::Admitted, dispatch::dispatch, handler::ReadyService, state::Engine, without_key::run_without_key,
    },
    future::ResponseFuture,
    grpc::{Encoding, UnaryResponse, drain_for, grpc_timeout},
    key::IdempotencyKey,
    rejection::Rejection,
    user::UserId,
};

const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Sends each call along the route that [`route`] decides on.
#[derive(Clone)]
pub(super) struct Protect<S> {
    pub(super) inner: S,
    pub(super) shared: Arc<Shared>,
}

impl<S> Protect<S> {
    pub(super) fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    /// Gives up the readiness of the inner service, such as a permit that it holds.
    #[cfg(feature = "connect")]
    pub(super) fn give_back_readiness(&mut self)
    where
        S: Clone,
    {
        drop(self.take_inner());
    }

    /// Takes the inner service, which is ready, and replaces it by a clone.
    fn take_inner(&mut self) -> S
    where
        S: Clone,
    {
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}

impl<S, R> Service<Request<Body>> for Protect<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<StdError> + Send + 'static,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match route(&self.shared, &request) {
            Route::PassThrough => ResponseFuture::pass_through(self.inner.call(request)),
            Route::Protect { engine, protected, key, user, admitted } => {
                let read = (request, self.shared.request_limits);
                ResponseFuture::boxed(protect(engine, protected, (user, key), admitted, read, self.take_inner()))
            }
            Route::Reject(rejection) => ResponseFuture::boxed(reject(rejection, request, self.shared.request_limits)),
            Route::WithoutKey { engine, protected, user, admitted } => {
                let read = (request, self.shared.request_limits);
                ResponseFuture::boxed(without_key(engine, protected, user, admitted, read, self.take_inner()))
            }
        }
    }
}

/// Reads the request, and runs the call with its key.
fn protect<S, R>(
    engine: Arc<Engine>,
    protected: Arc<Protected>,
    owned: (UserId, IdempotencyKey),
    admitted: Admitted,
    (mut request, limits): (Request<Body>, RequestLimits),
    service: S,
) -> impl Future<Output = Result<Response<Body>, S::Error>> + Send + 'static
where
    S: Service<Request<Body>, Response = Response<R>> + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    let timeout = grpc_timeout(request.headers());
    // A server that enforces the timeout would drop the handler, which has to run to its end.
    request.headers_mut().remove(GRPC_TIMEOUT);
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let (accepted, compress_from) = (Encoding::accepted(request.headers()).next(), engine.compress_replays_from);
    // Boxed, so that its memory is freed before the handler runs.
    let read = Box::pin(read(protected, owned, deadline, request, limits, admitted));
    async move {
        let (call, request, admitted) = match read.await {
            Ok(read) => read,
            Err(status) => return Ok(UnaryResponse::failed(status).into_response()),
        };
        // Dropped together with this future when the client disconnects.
        let _disconnected = call.disconnected.clone().map(CancellationToken::drop_guard);
        match dispatch(engine, call, Box::new(ReadyService { service, request }), timeout, admitted).await {
            Some(response) => response.map(|response| response.compressed(accepted, compress_from).into_response()),
            None => Ok(UnaryResponse::failed(Status::internal("the idempotency layer panicked")).into_response()),
        }
    }
}

/// Reads the request of a call without a key, or without a user, and runs it in a transaction. A call that is still being
/// read holds no connection. When the client disconnects, the future is dropped, as without the layer, and the
/// transaction is rolled back.
async fn without_key<S, R>(
    engine: Arc<Engine>,
    protected: Arc<Protected>,
    user: Option<UserId>,
    _admitted: Admitted,
    (request, limits): (Request<Body>, RequestLimits),
    service: S,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<R>> + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    let procedure = &protected.procedure;
    let handler = match read_without_key(&protected, request, limits).await {
        Ok(request) => Box::new(ReadyService { service, request }),
        Err(status) => return Ok(UnaryResponse::failed(status).into_response()),
    };
    run_without_key(&engine, procedure, user, handler).await.map(UnaryResponse::into_response)
}

/// Refuses a call. Over HTTP/1, reads the body first, within the limits. As gRPC specifies, the HTTP status is 415 if the
/// content type is not one of gRPC's: a caller that does not know gRPC must not take the refusal for a success.
async fn reject<E>(rejection: Rejection, request: Request<Body>, limits: RequestLimits) -> Result<Response<Body>, E> {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let is_grpc = content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    // Answered even if the body does not end in time.
    let _ = tokio::time::timeout(limits.time, drain_for(request.version(), request.into_body(), limits.bytes)).await;
    let mut response = UnaryResponse::failed(rejection.into()).into_response();
    if !is_grpc {
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    Ok(response)
}
