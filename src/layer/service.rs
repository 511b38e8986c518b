use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
#[cfg(feature = "connect")]
use futures_util::FutureExt as _;
use http::{Request, Response, Version};
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body, codegen::StdError, server::NamedService};
use tower_service::Service;

use crate::{
    HangUpPolicy, IdempotencyKey, KeyPolicy, LeasePolicy, Mode, Procedure, ResponseFuture, StorePolicy, UserId,
    UserPolicy,
    engine::{
        Engine,
        call::Call,
        handler::{Handler, Ready},
    },
    grpc::{Encoding, RequestError, UnaryRequest, UnaryResponse, drain, grpc_timeout, is_grpc},
    layer::layer::{Protected, Shared},
    rejection::{MalformedRequest, Rejection},
    store::Reservation,
    telemetry::{self, Degradation},
};

const GRPC_TIMEOUT: &str = "grpc-timeout";

/// A service whose create calls take idempotency keys. Made by [`IdempotencyLayer`](crate::IdempotencyLayer).
#[derive(Clone)]
pub struct Idempotency<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Idempotency<S> {
    pub(crate) fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    /// The inner service that is ready; a clone takes its place.
    fn take_inner(&mut self) -> S
    where
        S: Clone,
    {
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
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
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let request = request.map(Body::new);
        match self.shared.decide(&request) {
            Decision::PassThrough => ResponseFuture::pass_through(self.inner.call(request)),
            Decision::Protect { engine, protected, key, user } => {
                let limit = self.shared.max_request_bytes;
                let reservation = Reservation::new(user, key);
                ResponseFuture::boxed(protect(engine, protected, reservation, request, limit, self.take_inner()))
            }
            Decision::Transaction { engine, protected, user } => {
                let handler = Box::new(Ready { service: self.take_inner(), request });
                ResponseFuture::boxed(in_transaction(engine, protected, user, handler))
            }
            #[cfg(feature = "connect")]
            Decision::Translate => {
                let shared = Arc::clone(&self.shared);
                let service = Self { inner: self.take_inner(), shared: Arc::clone(&shared) };
                ResponseFuture::boxed(shared.translator.call(request, service).map(Ok))
            }
            Decision::Reject(rejection) => {
                ResponseFuture::boxed(rejected(rejection, request, self.shared.max_request_bytes))
            }
        }
    }
}

/// What becomes of a request, as far as its head tells.
enum Decision {
    PassThrough,
    Protect {
        engine: Arc<Engine>,
        protected: Arc<Protected>,
        key: IdempotencyKey,
        user: UserId,
    },
    Reject(Rejection),
    /// Without a record, in a transaction, because the handler needs one.
    Transaction {
        engine: Arc<Engine>,
        protected: Arc<Protected>,
        user: Option<UserId>,
    },
    /// As gRPC, and then once more.
    #[cfg(feature = "connect")]
    Translate,
}

impl Shared {
    fn decide<B>(&self, request: &Request<B>) -> Decision {
        let Some(engine) = &self.engine else {
            return Decision::PassThrough;
        };
        let Some(protected) = self.procedures.get(request.uri().path()) else {
            return Decision::PassThrough;
        };
        let (procedure, policies) = (&protected.procedure, protected.procedure.policies());
        #[cfg(feature = "connect")]
        if self.is_to_be_translated(request, procedure) {
            return Decision::Translate;
        }
        let key = match request.extensions().get().copied() {
            Some(key) => Ok(Some(key)),
            None => IdempotencyKey::from_headers(request.headers()),
        };
        let key = match key {
            Ok(None) if policies.key == KeyPolicy::Required => return reject(procedure, Rejection::KeyRequired),
            Ok(key) => key,
            Err(invalid) => return reject(procedure, Rejection::KeyInvalid(invalid)),
        };
        if key.is_none() && policies.mode == Mode::Reserved {
            return Decision::PassThrough;
        }
        if engine.running.stopping().is_cancelled() {
            return reject(procedure, Rejection::ShuttingDown);
        }
        if !is_grpc(request.headers()) {
            // Cannot be checked, as if the store were away.
            let malformed = MalformedRequest::Protocol;
            if policies.on_store_unavailable == StorePolicy::Reject || policies.mode == Mode::Transactional {
                return reject(procedure, Rejection::RequestMalformed(malformed));
            }
            telemetry::unprotected(procedure, Degradation::UnsupportedProtocol, &malformed);
            return Decision::PassThrough;
        }
        let user = self.user.user(request.headers(), request.extensions());
        let (engine, protected) = (Arc::clone(engine), Arc::clone(protected));
        match (key, user) {
            (Some(key), Some(user)) => Decision::Protect { engine, protected, key, user },
            (None, user) => Decision::Transaction { engine, protected, user },
            (Some(_), None) if policies.on_no_user == UserPolicy::Reject => reject(procedure, Rejection::NoUser),
            (Some(_), None) => {
                let error = "no authenticated user in the request; put the authentication interceptor in front of the \
                             idempotency layer, and have it insert a UserId into the extensions";
                telemetry::unprotected(procedure, Degradation::NoUser, &error);
                match policies.mode {
                    Mode::Reserved => Decision::PassThrough,
                    Mode::Transactional => Decision::Transaction { engine, protected, user: None },
                }
            }
        }
    }

    /// Whether the call needs the layer, in a protocol that it does not take apart itself.
    #[cfg(feature = "connect")]
    fn is_to_be_translated<B>(&self, request: &Request<B>, procedure: &Procedure) -> bool {
        if is_grpc(request.headers()) || !self.translator.translates(request) {
            return false;
        }
        let policies = procedure.policies();
        let has_key = request.headers().contains_key(IdempotencyKey::HEADER)
            || request.extensions().get::<IdempotencyKey>().is_some();
        has_key || policies.key == KeyPolicy::Required || policies.mode == Mode::Transactional
    }
}

fn reject(procedure: &Procedure, rejection: Rejection) -> Decision {
    telemetry::rejected(procedure, rejection.reason());
    Decision::Reject(rejection)
}

/// Answers a call that is refused for its head. Over HTTP/1 its body is read first, as far as one that is not refused would be: the
/// connection is closed otherwise, and a client that still writes may never see the answer.
async fn rejected<E>(rejection: Rejection, request: Request<Body>, limit: usize) -> Result<Response<Body>, E> {
    if request.version() < Version::HTTP_2 {
        drain(request.into_body(), limit).await;
    }
    Ok(UnaryResponse::failed(rejection.into()).into_response())
}

/// Reads the request, and runs it under its key.
fn protect<S, R>(
    engine: Arc<Engine>,
    protected: Arc<Protected>,
    reservation: Reservation,
    mut request: Request<Body>,
    limit: usize,
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
    // Whoever enforced it would drop a handler that is to go on to its end.
    request.headers_mut().remove(GRPC_TIMEOUT);
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let (accepted, compress_from) = (Encoding::accepted(request.headers()).next(), engine.compress_replays_from);
    // In memory of its own, which is free again while the handler runs.
    let read = Box::pin(read(protected, reservation, deadline, request, limit));
    async move {
        let (call, request) = match read.await {
            Ok(read) => read,
            Err(status) => return Ok(UnaryResponse::failed(status).into_response()),
        };
        // Dropped with this future, when the client goes away.
        let _hung_up = call.hung_up.clone().map(CancellationToken::drop_guard);
        match engine.call(call, Box::new(Ready { service, request }), timeout).await {
            Some(response) => response.map(|response| response.compressed(accepted, compress_from).into_response()),
            None => Ok(UnaryResponse::failed(Status::internal("the idempotency layer panicked")).into_response()),
        }
    }
}

/// Runs a call that has no key, or nobody's, in a transaction. As if the layer were not there, it is dropped with the client,
/// and then rolled back.
async fn in_transaction<E>(
    engine: Arc<Engine>,
    protected: Arc<Protected>,
    user: Option<UserId>,
    handler: Handler<E>,
) -> Result<Response<Body>, E> {
    engine.in_transaction(&protected.procedure, user, handler).await.map(UnaryResponse::into_response)
}

/// Reads and hashes the request: what to claim with, and what the handler is to get.
async fn read(
    protected: Arc<Protected>,
    reservation: Reservation,
    deadline: Option<Instant>,
    request: Request<Body>,
    limit: usize,
) -> Result<(Arc<Call>, Request<Body>), Status> {
    let Protected { procedure, canonical } = &*protected;
    let rejected = |rejection: Rejection| {
        telemetry::rejected(procedure, rejection.reason());
        Status::from(rejection)
    };
    let malformed = |error| rejected(Rejection::RequestMalformed(MalformedRequest::Framing(error)));

    let mut request = UnaryRequest::read(request, limit).await.map_err(|error| match error {
        RequestError::Body(status) => status,
        RequestError::TooLarge { limit } => rejected(Rejection::RequestTooLarge { limit }),
        RequestError::Wire(error) => malformed(error),
    })?;
    let request_hash = canonical
        .hash(request.message())
        .map_err(|error| rejected(Rejection::RequestMalformed(MalformedRequest::Message(error))))?;
    request.extensions_mut().insert(reservation.key);
    let policies = procedure.policies();
    let call = Arc::new(Call {
        procedure: Arc::clone(procedure),
        reservation,
        request_hash,
        request: (policies.on_lease_ended == LeasePolicy::Reconcile).then(|| request.message().clone()),
        deadline,
        hung_up: (policies.on_hang_up == HangUpPolicy::RollBack).then(CancellationToken::new),
    });
    Ok((call, request.into_request().map_err(malformed)?))
}

impl<S: NamedService> NamedService for Idempotency<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: fmt::Debug> fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency").field("inner", &self.inner).finish_non_exhaustive()
    }
}
