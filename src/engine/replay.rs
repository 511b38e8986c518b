//! What a call gets that does not run its handler.

use std::sync::Arc;

use crate::{
    IdempotencyStatus,
    engine::{Engine, call::Call, clock_reading::Moment, held_key::Claimed, settle::Settlement, single_flight::Flight},
    grpc::UnaryResponse,
    rejection::Rejection,
    store::{ClaimOutcome, Replay, Resource, StoreError, StoreErrorKind, StoredResponse},
    telemetry::{self, Chain},
};

impl Engine {
    /// What the record of its key means for a call.
    pub(crate) async fn answer<E>(
        &self,
        call: &Call,
        outcome: ClaimOutcome,
        asked: Moment,
        flight: Option<&Flight>,
    ) -> Result<UnaryResponse, E> {
        match outcome {
            ClaimOutcome::InFlight { lease_left } => call.reject(Rejection::InProgress { lease_left }),
            ClaimOutcome::Mismatch(mismatch) => call.reject(Rejection::KeyReused(mismatch)),
            ClaimOutcome::OutcomeUnknown => call.reject(Rejection::OutcomeUnknown),
            ClaimOutcome::Replay(replay) => {
                let status = self.replay_status(call, &replay).await;
                let recorded = self.recorded(call, &replay.response, replay.resource, status);
                if recorded.is_whole() && is_final(&replay.response, status) {
                    self.replays.keep(call, &recorded, asked, replay.expires_in);
                } else {
                    self.replays.forget(call);
                }
                if let Some(flight) = flight {
                    flight.land(&recorded);
                }
                Ok(call.replay(recorded))
            }
            // The key is free, and there is no handler any more to run.
            ClaimOutcome::Acquired | ClaimOutcome::TakenOver => call.reject(Rejection::Conflict),
        }
    }

    /// What there is for a call whose handler has run and is not recorded, or whose outcome was found by the reconciler.
    pub(crate) async fn look_again<E>(&self, call: &Arc<Call>) -> Result<UnaryResponse, E> {
        match self.claim(call).await {
            Ok(Claimed::Refused { outcome, asked }) => self.answer(call, outcome, asked, None).await,
            Ok(Claimed::Acquired(hold) | Claimed::TakenOver(hold)) => {
                self.let_go(call, hold, Settlement::Release).await;
                call.reject(Rejection::Conflict)
            }
            Err(error) => self.refuse_without_store(call, &error),
        }
    }

    /// The answer to a call that cannot be protected.
    pub(crate) fn refuse_without_store<E>(&self, call: &Call, error: &StoreError) -> Result<UnaryResponse, E> {
        if error.kind() == StoreErrorKind::Conflict {
            return call.reject(Rejection::Conflict);
        }
        telemetry::store_unavailable(&call.procedure, &Chain(error));
        Ok(UnaryResponse::failed(Rejection::StoreUnavailable.into()))
    }

    /// The status that a replay reports. Fails softly.
    async fn replay_status(&self, call: &Call, replay: &Replay) -> IdempotencyStatus {
        let Some(creates) = call.procedure.creates() else {
            return IdempotencyStatus::Completed;
        };
        let status = match (&self.status_resolver, replay.resource) {
            (Some(resolver), Some(id)) => {
                let resource = Resource { resource_type: creates.resource_type.clone(), id };
                resolver.status(call.reservation.user, &resource).await.map_err(|error| Chain(&*error).to_string())
            }
            (None, _) => replay.status.as_ref().copied().map_err(ToString::to_string),
            (Some(_), None) => Ok(None),
        };
        let problem = match status {
            Ok(Some(status)) => return status.into(),
            Ok(None) => "nothing is known of the created resource".to_owned(),
            Err(error) => error,
        };
        telemetry::status_unknown(&call.procedure, &problem);
        IdempotencyStatus::Processing
    }
}

/// Whether a replay stays the same for as long as its record lives. A status that could not be found out is none that is final.
fn is_final(response: &StoredResponse, status: IdempotencyStatus) -> bool {
    match response {
        StoredResponse::Error(_) => true,
        StoredResponse::Message(_) => status != IdempotencyStatus::Processing,
        StoredResponse::Omitted => false,
    }
}
