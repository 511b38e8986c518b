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
    route::KnownCaller,
    shared::{Protected, RequestLimits},
};
use crate::{
    blocking::read_message,
    engine::{admission::Admitted, call::Call},
    grpc::{RequestError, UnaryRequest, WireError, WrittenMessage, buffer},
    key::IdempotencyKey,
    policy::{DisconnectPolicy, Procedure},
    rejection::{MalformedRequest, Rejection, TooCostly},
    store::Reservation,
};

/// Reads and hashes a request within the limits. Returns the call to claim with, the request for the handler, and the
/// admission, which knows the size of the request then.
pub(super) async fn read(
    protected: Arc<Protected>,
    (key, caller): (IdempotencyKey, KnownCaller),
    deadline: Option<Instant>,
    request: Request<Body>,
    limits: RequestLimits,
    mut admitted: Admitted,
) -> Result<(Arc<Call>, Request<Body>, Admitted), Status> {
    let Protected { procedure, canonical: _, accepted } = &*protected;
    let reading = UnaryRequest::read(request, limits.bytes, accepted);
    let mut request = within(limits.time, reading).await.map_err(|error| refused(&protected, error))?;
    let request_hashes = Hashing::of(&mut request).run(&protected).await?;
    admitted.set_bytes(request.message().len());
    request.extensions_mut().insert(key);
    let KnownCaller { caller, owner, session } = caller;
    let policies = procedure.policies();
    let call = Arc::new(Call {
        procedure: Arc::clone(procedure),
        reservation: Reservation::new(owner, key),
        caller: Some(caller),
        session,
        request_hashes,
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

/// The message whose hashes are computed.
struct Hashing {
    message: Bytes,
    /// The message as its client wrote it in JSON.
    json: Option<Bytes>,
}

impl Hashing {
    fn of(request: &mut UnaryRequest) -> Self {
        let message = request.message().clone();
        let written: Option<WrittenMessage> = request.extensions_mut().remove();
        // A layer in between may have changed the message.
        let json = written.filter(|written| written.message == message).map(|written| written.json);
        Self { message, json }
    }

    async fn run(self, protected: &Arc<Protected>) -> Result<RequestHashes, Status> {
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
