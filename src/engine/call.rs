use std::sync::Arc;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    IdempotencyStatus, Procedure, Reason,
    engine::{Engine, settle::Settlement},
    grpc::{Replayed, UnaryResponse},
    rejection::Rejection,
    store::{Claim, Reservation, StoredResponse, TransactionOptions},
    telemetry,
};
use protobuf_canonical::RequestHash;

/// A call that is protected.
pub(crate) struct Call {
    pub(crate) procedure: Arc<Procedure>,
    pub(crate) reservation: Reservation,
    pub(crate) request_hash: RequestHash,
    /// The encoded request message, for the reconciler; `None` where there is none to ask, or only the hash is known.
    pub(crate) request: Option<Bytes>,
    /// Until when the client waits.
    pub(crate) deadline: Option<std::time::Instant>,
    /// Cancelled when the client went away; `None` where that does not matter.
    pub(crate) hung_up: Option<CancellationToken>,
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
            effect: policies.effect,
            resource_type: self.procedure.creates().map(|creates| creates.resource_type.clone()),
        }
    }

    pub(crate) fn transaction_options(&self) -> TransactionOptions {
        let policies = self.procedure.policies();
        TransactionOptions { isolation: policies.isolation, savepoint: !policies.final_errors.is_empty() }
    }

    /// What the first response reports: the work behind what it created has only begun.
    pub(crate) fn first_status(&self) -> IdempotencyStatus {
        match self.procedure.creates() {
            Some(_) => IdempotencyStatus::Processing,
            None => IdempotencyStatus::Completed,
        }
    }

    /// The response to a call that is refused.
    pub(crate) fn reject<E>(&self, rejection: Rejection) -> Result<UnaryResponse, E> {
        telemetry::rejected(&self.procedure, rejection.reason());
        Ok(UnaryResponse::failed(rejection.into()))
    }

    /// Gives what is recorded to this call.
    pub(crate) fn replay(&self, recorded: Recorded) -> UnaryResponse {
        match recorded.refused {
            None => telemetry::replayed(&self.procedure),
            Some(reason) => telemetry::rejected(&self.procedure, reason),
        }
        recorded.response
    }
}

/// What is recorded of a call, as the response to another.
#[derive(Clone)]
pub(crate) struct Recorded {
    response: UnaryResponse,
    /// Why there is no more to give.
    refused: Option<Reason>,
    metadata_lost: bool,
}

impl Recorded {
    /// Whether all that was recorded could be read.
    pub(crate) fn is_whole(&self) -> bool {
        self.refused.is_none() && !self.metadata_lost
    }

    /// About how many bytes it takes in memory, rather too many.
    pub(crate) fn size(&self) -> usize {
        self.response.size()
    }
}

impl Engine {
    /// What those get who have waited for a call that ended so.
    pub(crate) fn landing(&self, call: &Call, settlement: &Settlement) -> Option<Recorded> {
        let Settlement::Complete(completion) = settlement else { return None };
        let resource = completion.resource.as_ref().map(|resource| resource.id);
        Some(self.recorded(call, &completion.response, resource, call.first_status()))
    }

    pub(crate) fn recorded(
        &self,
        call: &Call,
        response: &StoredResponse,
        resource: Option<Uuid>,
        status: IdempotencyStatus,
    ) -> Recorded {
        let replayed = match response {
            StoredResponse::Error(error) => UnaryResponse::replay_error(error, &self.kept_metadata).ok(),
            StoredResponse::Message(stored) => UnaryResponse::replay(stored, &self.kept_metadata, status).ok(),
            StoredResponse::Omitted => None,
        };
        match replayed {
            Some(Replayed { response, metadata_lost }) => {
                if metadata_lost {
                    telemetry::metadata_lost(&call.procedure);
                }
                Recorded { response, refused: None, metadata_lost }
            }
            // Too large to keep; or more than gRPC can frame, and so more than any handler can have answered; or
            // written by somebody else.
            None => {
                let rejection = Rejection::ResponseNotStored { resource };
                Recorded {
                    refused: Some(rejection.reason()),
                    response: UnaryResponse::failed(rejection.into()),
                    metadata_lost: false,
                }
            }
        }
    }
}
