//! A record, as the response to another call.

use super::call::Call;
use crate::{
    grpc::{MetadataFilter, Replayed, UnaryResponse},
    rejection::{Reason, Rejection},
    status::{IdempotencyStatus, ResourceId},
    store::StoredResponse,
};

/// A record, as the response to another call.
#[derive(Clone)]
pub(super) struct Recorded {
    response: UnaryResponse,
    /// The reason why the response is a refusal; `None` for the first response itself.
    refused: Option<Reason>,
    metadata_lost: bool,
    /// The id of the resource that the first call created.
    pub(super) resource: Option<ResourceId>,
}

impl Recorded {
    pub(super) fn new(
        filter: &MetadataFilter,
        call: &Call,
        response: &StoredResponse,
        resource: Option<ResourceId>,
        status: IdempotencyStatus,
    ) -> Self {
        let replayed = match response {
            StoredResponse::Error(error) => UnaryResponse::replay_error(error, filter).ok(),
            StoredResponse::Message(stored) => {
                UnaryResponse::replay(&stored.message, stored.metadata.as_deref(), filter, status.header_value()).ok()
            }
            StoredResponse::NotStored => None,
        };
        match replayed {
            Some(Replayed { response, metadata_lost }) => {
                if metadata_lost {
                    call.procedure.telemetry().metadata_lost();
                }
                Self { response, refused: None, metadata_lost, resource }
            }
            // Too large to store; or larger than a gRPC frame, and so not written by a handler behind this layer.
            None => {
                let rejection = Rejection::NotStored { resource: resource.clone() };
                Self {
                    refused: Some(rejection.reason()),
                    response: UnaryResponse::failed(rejection.into()),
                    metadata_lost: false,
                    resource,
                }
            }
        }
    }

    /// Whether the first response could be restored with its metadata.
    pub(super) fn is_whole(&self) -> bool {
        self.refused.is_none() && !self.metadata_lost
    }

    /// An estimate of the memory that it takes, in bytes, rather too high.
    pub(super) fn size(&self) -> usize {
        self.response.size()
    }

    /// Gives the response to this call.
    pub(super) fn replay(self, call: &Call) -> UnaryResponse {
        match self.refused {
            None => call.procedure.telemetry().replayed(),
            Some(reason) => call.procedure.telemetry().rejected(reason.as_str()),
        }
        self.response
    }
}
