//! Reads and hashes a request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Request;
use protobuf_canonical::{CanonicalError, CanonicalErrorKind, RequestHash};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};

use super::shared::{Protected, RequestLimits};
use crate::{
    blocking::read_message,
    engine::{admission::Admitted, call::Call},
    grpc::{RequestError, UnaryRequest, WireError, buffer},
    key::IdempotencyKey,
    policy::{DisconnectPolicy, Procedure},
    rejection::{MalformedRequest, Rejection, TooCostly},
    store::Reservation,
    user::UserId,
};

/// Reads and hashes a request within the limits. Returns the call to claim with, the request for the handler, and the
/// admission, which knows the size of the request then.
pub(super) async fn read(
    protected: Arc<Protected>,
    (user, key): (UserId, IdempotencyKey),
    deadline: Option<Instant>,
    request: Request<Body>,
    limits: RequestLimits,
    mut admitted: Admitted,
) -> Result<(Arc<Call>, Request<Body>, Admitted), Status> {
    let Protected { procedure, canonical: _, accepted } = &*protected;
    let reading = UnaryRequest::read(request, limits.bytes, accepted);
    let mut request = within(limits.time, reading).await.map_err(|error| refused(&protected, error))?;
    let request_hash = hash(&protected, request.message()).await?;
    admitted.set_bytes(request.message().len());
    let reservation = Reservation::new(user, key.id());
    request.extensions_mut().insert(key);
    let policies = procedure.policies();
    let call = Arc::new(Call {
        procedure: Arc::clone(procedure),
        reservation,
        request_hash,
        request: policies.reconciles().then(|| request.message().clone()),
        deadline,
        disconnected: (policies.on_disconnect == DisconnectPolicy::RollBack).then(CancellationToken::new),
    });
    let request = request.into_request().map_err(|error| reject(procedure, malformed(error)))?;
    Ok((call, request, admitted))
}

/// Reads the request of a call without a key within the limits. It stays as it is.
pub(super) async fn read_without_key(
    protected: &Protected,
    request: Request<Body>,
    limits: RequestLimits,
) -> Result<Request<Body>, Status> {
    within(limits.time, buffer(request, limits.bytes)).await.map_err(|error| refused(protected, error))
}

async fn hash(protected: &Arc<Protected>, message: &Bytes) -> Result<RequestHash, Status> {
    let (encoder, message) = (Arc::clone(protected), message.clone());
    let hash = read_message(message.len(), move || encoder.canonical.hash(&message)).await;
    let hash = hash.map_err(|interrupted| Status::internal(interrupted.to_string()))?;
    hash.map_err(|error| reject(&protected.procedure, not_hashed(error)))
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

fn refused(protected: &Protected, error: ReadError) -> Status {
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
