//! Reads and hashes a request.

use std::{sync::Arc, time::Instant};

use http::Request;
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};

use super::shared::Protected;
use crate::{
    engine::call::Call,
    grpc::{RequestError, UnaryRequest},
    policy::{DisconnectPolicy, LeasePolicy},
    rejection::{MalformedRequest, Rejection},
    store::Reservation,
};

/// Reads and hashes a request whose message has at most `limit` bytes. Returns the call to claim with, and the request
/// for the handler.
pub(super) async fn read(
    protected: Arc<Protected>,
    reservation: Reservation,
    deadline: Option<Instant>,
    request: Request<Body>,
    limit: usize,
) -> Result<(Arc<Call>, Request<Body>), Status> {
    let Protected { procedure, canonical } = &*protected;
    let rejected = |rejection: Rejection| {
        procedure.telemetry().rejected(rejection.reason().as_str());
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
        disconnected: (policies.on_disconnect == DisconnectPolicy::RollBack).then(CancellationToken::new),
    });
    Ok((call, request.into_request().map_err(malformed)?))
}
