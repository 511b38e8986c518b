use std::sync::Arc;

use crate::{
    Procedure,
    canonical::RequestHash,
    error::Rejection,
    store::{Claim, Reservation},
    telemetry,
    wire::UnaryResponse,
};

/// A call that is protected.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) procedure: Arc<Procedure>,
    pub(crate) reservation: Reservation,
    pub(crate) request_hash: RequestHash,
}

impl Call {
    /// What to ask the store for.
    pub(crate) fn claim(&self) -> Claim {
        let policies = self.procedure.policies();
        Claim {
            reservation: self.reservation,
            procedure: self.procedure.path().to_owned(),
            request_hash: self.request_hash,
            lease: policies.lease,
            retention: policies.retention,
            on_lease_ended: policies.on_lease_ended,
            resource_type: self.procedure.creates().map(|creates| creates.resource_type.clone()),
        }
    }

    /// The response to a call that is refused.
    pub(crate) fn reject<E>(&self, rejection: Rejection) -> Result<UnaryResponse, E> {
        telemetry::rejected(&self.procedure, rejection.reason());
        Ok(UnaryResponse::failed(rejection.into()))
    }
}
