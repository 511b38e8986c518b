//! Reads and hashes a request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::Request;
use protobuf_canonical::RequestHash;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};

use super::shared::{Protected, RequestLimits};
use crate::{
    engine::{admission::Admitted, call::Call},
    grpc::{RequestError, UnaryRequest, WireError, buffer},
    policy::{DisconnectPolicy, LeasePolicy, Procedure},
    rejection::{MalformedRequest, Rejection},
    store::Reservation,
};

/// Reads and hashes a request within the limits. Returns the call to claim with, the request for the handler, and the
/// admission, which knows the size of the request then.
pub(super) async fn read(
    protected: Arc<Protected>,
    reservation: Reservation,
    deadline: Option<Instant>,
    request: Request<Body>,
    limits: RequestLimits,
    mut admitted: Admitted,
) -> Result<(Arc<Call>, Request<Body>, Admitted), Status> {
    let procedure = &protected.procedure;
    let reading = UnaryRequest::read(request, limits.bytes);
    let mut request = within(limits.time, reading).await.map_err(|error| refused(procedure, error))?;
    let request_hash = hash(&protected, &request)?;
    admitted.set_bytes(request.message().len());
    request.extensions_mut().insert(reservation.key);
    let policies = procedure.policies();
    let call = Arc::new(Call {
        procedure: Arc::clone(procedure),
        reservation,
        request_hash,
        request: (policies.on_lease_ended == LeasePolicy::Reconcile).then(|| request.message().clone()),
        deadline,
        disconnected: (policies.on_disconnect == DisconnectPolicy::RollBack).then(CancellationToken::new),
    });
    let request = request.into_request().map_err(|error| reject(procedure, malformed(error)))?;
    Ok((call, request, admitted))
}

/// Reads the request of a call without a key within the limits. It stays as it is.
pub(super) async fn read_without_key(
    procedure: &Procedure,
    request: Request<Body>,
    limits: RequestLimits,
) -> Result<Request<Body>, Status> {
    within(limits.time, buffer(request, limits.bytes)).await.map_err(|error| refused(procedure, error))
}

fn hash(protected: &Protected, request: &UnaryRequest) -> Result<RequestHash, Status> {
    let hash = protected.canonical.hash(request.message());
    hash.map_err(|error| reject(&protected.procedure, Rejection::RequestMalformed(MalformedRequest::Message(error))))
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

fn refused(procedure: &Procedure, error: ReadError) -> Status {
    let rejection = match error {
        ReadError::Request(RequestError::Body(status)) => return status,
        ReadError::Request(RequestError::TooLarge { limit }) => Rejection::RequestTooLarge { limit },
        ReadError::Request(RequestError::Wire(error)) => malformed(error),
        ReadError::Slow { limit } => Rejection::RequestTimeout { limit },
    };
    reject(procedure, rejection)
}

fn malformed(error: WireError) -> Rejection {
    Rejection::RequestMalformed(MalformedRequest::Framing(error))
}

fn reject(procedure: &Procedure, rejection: Rejection) -> Status {
    procedure.telemetry().rejected(rejection.reason().as_str());
    rejection.into()
}
