//! Reads and hashes a request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Request;
use protobuf_canonical::{Canonical, CanonicalError, CanonicalErrorKind, RequestHashes};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};

use super::{
    route::{Decision, KnownCaller, decide},
    shared::ProtectedProcedure,
};
use crate::{
    blocking::read_message,
    engine::{attempts::Attempts, call::ProtectedCall, limits::admission::CountedCall},
    grpc::{
        RequestError, RequestLimits, UnaryRequest, WholeBody, WireError, WrittenMessage, buffer, encode_traceparent,
    },
    key::{IdempotencyKey, InvalidKey},
    nesting::Nesting,
    policy::{DisconnectPolicy, KeyFieldError, Procedure},
    rejection::{MalformedRequest, Rejection, TooCostly},
    store::Reservation,
    telemetry,
};

const GRPC_TIMEOUT: &str = "grpc-timeout";

/// A request that has not been read, and the limits within which it has to be.
pub(super) struct UnreadRequest {
    pub(super) request: Request<Body>,
    pub(super) limits: RequestLimits,
}

/// A call to run with its key.
pub(super) struct KeyedCall {
    pub(super) call: Arc<ProtectedCall>,
    /// The request for the handler.
    pub(super) request: Request<WholeBody>,
    /// Knows the size of the request.
    pub(super) admitted: CountedCall,
}

/// A call that has been read, and whose message may have had the key.
pub(super) enum ReadCall {
    Keyed(KeyedCall),
    /// It has no key, or no user.
    PassThrough(Request<WholeBody>),
    /// It has no key, or no user, and its handler requires a transaction.
    WithoutKey {
        request: Request<WholeBody>,
        caller: Option<KnownCaller>,
        admitted: CountedCall,
    },
}

/// Reads and hashes a request within the limits.
pub(super) async fn read(
    protected: Arc<ProtectedProcedure>,
    key: IdempotencyKey,
    caller: KnownCaller,
    deadline: Option<Instant>,
    unread: UnreadRequest,
    admitted: CountedCall,
) -> Result<KeyedCall, Status> {
    let request = receive(&protected, unread).await?;
    keyed(protected, key, caller, deadline, request, admitted).await
}

/// Reads a request whose message may have the key, and hashes it if it is protected.
pub(super) async fn read_and_find_key(
    protected: Arc<ProtectedProcedure>,
    key: Option<IdempotencyKey>,
    caller: Option<KnownCaller>,
    deadline: Option<Instant>,
    unread: UnreadRequest,
    admitted: CountedCall,
) -> Result<ReadCall, Status> {
    let procedure = &protected.procedure;
    let request = receive(&protected, unread).await?;
    let key = find_key(procedure, key, request.message()).await?;
    let unprotected = |mut request: UnaryRequest| {
        request.extensions_mut().remove::<WrittenMessage>();
        request.into_unprotected().map_err(|error| reject(procedure, malformed(error)))
    };
    match decide(&protected, key, caller) {
        Decision::PassThrough => unprotected(request).map(ReadCall::PassThrough),
        Decision::Protect(key, caller) => {
            keyed(Arc::clone(&protected), key, caller, deadline, request, admitted).await.map(ReadCall::Keyed)
        }
        Decision::Reject(rejection) => Err(rejection.into()),
        Decision::WithoutKey(caller) => Ok(ReadCall::WithoutKey { request: unprotected(request)?, caller, admitted }),
    }
}

async fn receive(
    protected: &ProtectedProcedure,
    UnreadRequest { request, limits }: UnreadRequest,
) -> Result<UnaryRequest, Status> {
    let reading = UnaryRequest::read(request, limits.bytes, &protected.accepted);
    within(limits.time, reading).await.map_err(|error| reject_unread(protected, error))
}

/// Hashes a request, and makes it ready for the handler.
async fn keyed(
    protected: Arc<ProtectedProcedure>,
    key: IdempotencyKey,
    caller: KnownCaller,
    deadline: Option<Instant>,
    mut request: UnaryRequest,
    mut admitted: CountedCall,
) -> Result<KeyedCall, Status> {
    let procedure = &protected.procedure;
    let request_hashes = HashInput::of(&mut request).run(&protected).await?;
    admitted.set_bytes(request.message().len());
    let KnownCaller { caller, owner, session } = caller;
    let reservation = Reservation::new(owner, key.id());
    request.extensions_mut().insert(key);
    let policies = procedure.policies();
    let call = Arc::new(ProtectedCall {
        procedure: Arc::clone(procedure),
        reservation,
        caller: Some(caller),
        session,
        request_hashes,
        request: policies.reconciles().then(|| request.message().clone()),
        can_be_final: !policies.final_errors.is_empty(),
        nesting: Nesting::current().unwrap_or_default(),
        metadata: telemetry::traceparent(request.headers()).map(encode_traceparent),
        deadline,
        disconnected: (policies.on_disconnect == DisconnectPolicy::RollBack).then(CancellationToken::new),
        attempts: Attempts::default(),
        keys: None,
    });
    let mut request = request.into_request().map_err(|error| reject(procedure, malformed(error)))?;
    // A server that enforces the timeout would drop the handler, which has to run to its end.
    request.headers_mut().remove(GRPC_TIMEOUT);
    Ok(KeyedCall { call, request, admitted })
}

/// Returns the key in the message, or else the one in the head; `None` if neither has one.
async fn find_key(
    procedure: &Arc<Procedure>,
    in_head: Option<IdempotencyKey>,
    message: &Bytes,
) -> Result<Option<IdempotencyKey>, Status> {
    let (finder, message) = (Arc::clone(procedure), message.clone());
    let found = read_message(message.len(), move || finder.key(&message)).await;
    let found = found.map_err(|interrupted| Status::internal(interrupted.to_string()))?;
    let invalid = |key| {
        let field = procedure.key_field().unwrap_or_default().to_owned();
        reject(procedure, Rejection::KeyFieldInvalid { field, key })
    };
    match (in_head, found) {
        (Some(head), Ok(Some(field))) if head != field => Err(invalid(InvalidKey::Mismatch)),
        (in_head, Ok(in_field)) => Ok(in_field.or(in_head)),
        (_, Err(KeyFieldError::Key(key))) => Err(invalid(key)),
        (_, Err(KeyFieldError::Message(error))) => Err(reject(procedure, not_hashed(error))),
    }
}

/// Reads the request of a call without a key within the limits. It stays as it is.
pub(super) async fn read_without_key(
    protected: &ProtectedProcedure,
    UnreadRequest { request, limits }: UnreadRequest,
) -> Result<Request<WholeBody>, Status> {
    within(limits.time, buffer(request, limits.bytes)).await.map_err(|error| reject_unread(protected, error))
}

/// The message whose hashes are computed.
struct HashInput {
    message: Bytes,
    /// The message as its client wrote it in JSON.
    json: Option<Bytes>,
}

impl HashInput {
    fn of(request: &mut UnaryRequest) -> Self {
        let message = request.message().clone();
        let written: Option<WrittenMessage> = request.extensions_mut().remove();
        // A layer in between may have changed the message.
        let json = written.filter(|written| written.message == message).map(|written| written.json);
        Self { message, json }
    }

    async fn run(self, protected: &Arc<ProtectedProcedure>) -> Result<RequestHashes, Status> {
        let encoder = Arc::clone(protected);
        let hashes = read_message(self.message.len(), move || self.hashes(&encoder.canonical)).await;
        let hashes = hashes.map_err(|interrupted| Status::internal(interrupted.to_string()))?;
        hashes.map_err(|error| reject(&protected.procedure, not_hashed(error)))
    }

    fn hashes(&self, canonical: &Canonical) -> Result<RequestHashes, CanonicalError> {
        match &self.json {
            #[cfg(feature = "connect")]
            Some(json) => canonical.hashes_of_json(&self.message, json),
            _ => canonical.hashes(&self.message),
        }
    }
}

fn not_hashed(error: CanonicalError) -> Rejection {
    match error.kind() {
        CanonicalErrorKind::TooCostly => Rejection::RequestTooCostly(TooCostly::Order(error)),
        _ => Rejection::RequestMalformed(MalformedRequest::Message(error)),
    }
}

/// The reason why a request was not read.
enum ReadError {
    Request(RequestError),
    Slow { limit: Duration },
}

async fn within<T>(limit: Duration, reading: impl Future<Output = Result<T, RequestError>>) -> Result<T, ReadError> {
    match timeout(limit, reading).await {
        Ok(read) => read.map_err(ReadError::Request),
        Err(_) => Err(ReadError::Slow { limit }),
    }
}

fn reject_unread(protected: &ProtectedProcedure, error: ReadError) -> Status {
    let rejection = match error {
        ReadError::Request(RequestError::Body(status)) => return status,
        ReadError::Request(RequestError::NotAccepted) => {
            Rejection::RequestMalformed(MalformedRequest::Compression { accepted: protected.accepted.header_value() })
        }
        ReadError::Request(RequestError::Ratio) => Rejection::RequestTooCostly(TooCostly::Ratio),
        ReadError::Request(RequestError::TooLarge { limit }) => Rejection::RequestTooLarge { limit },
        ReadError::Request(RequestError::Wire(error)) => malformed(error),
        ReadError::Slow { limit } => Rejection::RequestTimeout { limit },
    };
    reject(&protected.procedure, rejection)
}

fn malformed(error: WireError) -> Rejection {
    Rejection::RequestMalformed(MalformedRequest::Framing(error))
}

fn reject(procedure: &Procedure, rejection: Rejection) -> Status {
    procedure.telemetry().rejected(rejection.reason().as_str());
    rejection.into()
}
