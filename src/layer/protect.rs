//! The gRPC part of the service: sends each call along its route.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, Request, Response, StatusCode, header};
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body, codegen::StdError};
use tonic_idempotency_wire::grpc_timeout;
use tower_service::Service;

use super::{
    read::{KeyedCall, ReadCall, UnreadRequest, read, read_and_find_key, read_without_key},
    ready_service::ReadyService,
    route::{KnownCaller, Route, route},
    shared::{ProtectedProcedure, Shared},
};
use crate::{
    engine::{dispatch::dispatch, limits::admission::CountedCall, shared::state::Engine, without_key::run_without_key},
    future::ResponseFuture,
    grpc::{Encoding, RequestLimits, UnaryResponse, WrittenMessage, drain_for},
    key::IdempotencyKey,
    rejection::Rejection,
};

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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let route = route(&self.shared, &request);
        if !matches!(route, Route::FindKey { .. } | Route::Protect { .. }) {
            // It may be large, and is not compared.
            request.extensions_mut().remove::<WrittenMessage>();
        }
        match route {
            Route::FindKey { engine, protected, key, caller, admitted } => {
                let unread = UnreadRequest { request, limits: self.shared.request_limits };
                ResponseFuture::boxed(find_key(engine, protected, key, caller, admitted, unread, self.take_inner()))
            }
            Route::PassThrough => ResponseFuture::pass_through(self.inner.call(request)),
            Route::Protect { engine, protected, key, caller, admitted } => {
                let unread = UnreadRequest { request, limits: self.shared.request_limits };
                ResponseFuture::boxed(protect(engine, protected, key, caller, admitted, unread, self.take_inner()))
            }
            Route::Reject(rejection) => ResponseFuture::boxed(reject(rejection, request, self.shared.request_limits)),
            Route::WithoutKey { engine, protected, caller, admitted } => {
                let unread = UnreadRequest { request, limits: self.shared.request_limits };
                ResponseFuture::boxed(without_key(engine, protected, caller, admitted, unread, self.take_inner()))
            }
        }
    }
}

/// The parts of a request's head that the layer needs after the request is read.
#[derive(Clone, Copy)]
struct Head {
    timeout: Option<Duration>,
    /// The encoding of a response that the layer makes.
    accepted: Option<Encoding>,
}

impl Head {
    fn of(headers: &HeaderMap) -> Self {
        Self { timeout: grpc_timeout(headers), accepted: Encoding::accepted(headers).next() }
    }

    /// Returns the time until which the caller waits, if called when the request arrives.
    fn deadline(&self) -> Option<Instant> {
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }
}

/// Reads the request, and runs the call with its key.
fn protect<S, R>(
    engine: Arc<Engine>,
    protected: Arc<ProtectedProcedure>,
    key: IdempotencyKey,
    caller: KnownCaller,
    admitted: CountedCall,
    unread: UnreadRequest,
    service: S,
) -> impl Future<Output = Result<Response<Body>, S::Error>> + Send + 'static
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    let head = Head::of(unread.request.headers());
    // Boxed, so that its memory is freed before the handler runs.
    let read = Box::pin(read(protected, key, caller, head.deadline(), unread, admitted));
    async move {
        let keyed = match read.await {
            Ok(keyed) => keyed,
            Err(status) => return Ok(UnaryResponse::failed(status).into_response()),
        };
        run(engine, keyed, head, service).await
    }
}

/// Reads the request, whose message may have the key, and carries out the decision of [`decide`](super::route::decide).
async fn find_key<S, R>(
    engine: Arc<Engine>,
    protected: Arc<ProtectedProcedure>,
    key: Option<IdempotencyKey>,
    caller: Option<KnownCaller>,
    admitted: CountedCall,
    unread: UnreadRequest,
    mut service: S,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    let head = Head::of(unread.request.headers());
    let procedure = Arc::clone(&protected.procedure);
    match Box::pin(read_and_find_key(protected, key, caller, head.deadline(), unread, admitted)).await {
        Ok(ReadCall::Keyed(keyed)) => run(engine, keyed, head, service).await,
        Ok(ReadCall::PassThrough(request)) => {
            service.call(request.map(Body::new)).await.map(|response| response.map(Body::new))
        }
        Ok(ReadCall::WithoutKey { request, caller, admitted: _admitted }) => {
            let (owner, session) = KnownCaller::owner_and_session(caller);
            let handler = Box::new(ReadyService::new(service, request));
            run_without_key(&engine, &procedure, owner, &session, handler).await.map(UnaryResponse::into_response)
        }
        Err(status) => Ok(UnaryResponse::failed(status).into_response()),
    }
}

/// Runs a call with its key. Not async, because its future would hold a second place for each argument.
fn run<S, R>(
    engine: Arc<Engine>,
    KeyedCall { call, request, admitted }: KeyedCall,
    head: Head,
    service: S,
) -> impl Future<Output = Result<Response<Body>, S::Error>> + Send + 'static
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    // Dropped together with the future when the client disconnects.
    let disconnected = call.disconnected.clone().map(CancellationToken::drop_guard);
    let compress_from = engine.compress_replays_from;
    let response = dispatch(engine, call, Box::new(ReadyService::new(service, request)), head.timeout, admitted);
    response.map(move |response| {
        let _disconnected = disconnected;
        match response {
            Some(response) => {
                response.map(|response| response.compressed(head.accepted, compress_from).into_response())
            }
            None => Ok(UnaryResponse::failed(Status::internal("the idempotency layer panicked")).into_response()),
        }
    })
}

/// Reads the request of a call without a key, or without a user, and runs it in a transaction. A call that is still being
/// read holds no connection. When the client disconnects, the future is dropped, as without the layer, and the
/// transaction is rolled back.
async fn without_key<S, R>(
    engine: Arc<Engine>,
    protected: Arc<ProtectedProcedure>,
    caller: Option<KnownCaller>,
    _admitted: CountedCall,
    unread: UnreadRequest,
    service: S,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    let procedure = &protected.procedure;
    let handler = match read_without_key(&protected, unread).await {
        Ok(request) => Box::new(ReadyService::new(service, request)),
        Err(status) => return Ok(UnaryResponse::failed(status).into_response()),
    };
    let (owner, session) = KnownCaller::owner_and_session(caller);
    run_without_key(&engine, procedure, owner, &session, handler).await.map(UnaryResponse::into_response)
}

/// Rejects a call. Over HTTP/1, reads the body first, within the limits. As gRPC specifies, the HTTP status is 415 if the
/// content type is not one of gRPC's: a caller that does not know gRPC must not take the rejection for a success.
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
