//! A record, as the response to another call.

use std::sync::Arc;

use tonic_idempotency_wire::ErrorOutcome;

use crate::{
    engine::{
        call::Call,
        time::{clock_reading::ClockReading, expiry::Expiry},
    },
    grpc::{MetadataFilter, Replayed, UnaryResponse},
    rejection::{Reason, Rejection},
    status::{IdempotencyStatus, ResourceId},
    store::StoredResponse,
    telemetry::Spans,
};

/// A record, as the response to another call.
#[derive(Clone)]
pub(in crate::engine) struct Recorded {
    response: UnaryResponse,
    /// The reason why the response is a refusal; `None` for the first response itself.
    refused: Option<Reason>,
    metadata_lost: bool,
    /// The lifetime of its record; `None` if it has none yet.
    pub(in crate::engine) expiry: Option<Expiry>,
    /// The id of the resource that the first call created.
    pub(in crate::engine) resource: Option<ResourceId>,
    /// The `traceparent` of the first call.
    traceparent: Option<Arc<str>>,
}

impl Recorded {
    pub(in crate::engine) fn new(
        filter: &MetadataFilter,
        call: &Call,
        response: &StoredResponse,
        resource: Option<ResourceId>,
        status: IdempotencyStatus,
        expiry: Option<Expiry>,
    ) -> Self {
        let replayed = match response {
            StoredResponse::Error(error) => UnaryResponse::replay_error(error, filter).ok(),
            StoredResponse::Message(stored) => {
                UnaryResponse::replay(&stored.message, stored.metadata.as_deref(), filter, status.header_value()).ok()
            }
            StoredResponse::NotStored => None,
        };
        match replayed {
            Some(Replayed { response, metadata_lost, traceparent }) => {
                if metadata_lost {
                    call.procedure.telemetry().metadata_lost();
                }
                let traceparent = (!traceparent.is_empty()).then(|| traceparent.into());
                Self { response, refused: None, metadata_lost, expiry, resource, traceparent }
            }
            // The response was too large to store; or it is larger than a gRPC frame, and so not from a handler behind this layer.
            None => {
                let rejection = Rejection::NotStored { resource: resource.clone() };
                Self {
                    refused: Some(rejection.reason()),
                    response: UnaryResponse::failed(rejection.into()),
                    metadata_lost: false,
                    expiry,
                    resource,
                    traceparent: None,
                }
            }
        }
    }

    /// Returns whether the first response could be restored with its metadata.
    pub(in crate::engine) fn is_whole(&self) -> bool {
        self.refused.is_none() && !self.metadata_lost
    }

    /// Returns an estimate of the memory that it takes, in bytes, rather too high.
    pub(in crate::engine) fn size(&self) -> usize {
        self.response.size() + self.traceparent.as_ref().map_or(0, |traceparent| traceparent.len())
    }

    /// Gives the response to this call.
    pub(in crate::engine) fn replay(self, spans: &Spans, call: &Call) -> UnaryResponse {
        match self.refused {
            None => {
                spans.replay(call.procedure.path(), call.reservation.key.as_uuid(), self.traceparent.as_deref());
                call.procedure.telemetry().replayed();
            }
            Some(reason) => call.procedure.telemetry().rejected(reason.as_str()),
        }
        match self.expiry.and_then(|expiry| expiry.left(ClockReading::now())) {
            Some(left) if self.refused.is_none() => self.response.with_expiry(left).with_outcome(ErrorOutcome::Kept),
            Some(left) => self.response.with_expiry(left),
            None => self.response,
        }
    }
}
