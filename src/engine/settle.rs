//! Settles a call that has ended: records its outcome, and decides which response the caller gets.

use std::sync::Arc;

use tonic::Status;

use super::{
    call::Call,
    disposition::{self, Disposition},
    execute::Outcome,
    held_key::HeldKey,
    record,
    recorded::Recorded,
    refusal::not_committed,
    replay,
    single_flight::Leader,
    state::Engine,
};
use crate::{
    grpc::UnaryResponse,
    rejection::Rejection,
    store::{CommitOutcome, StoreTransaction, StoredResponse},
};

/// Records the outcome, and returns the response for the caller. In reserved mode that is the handler's response, whatever
/// becomes of the record; in transactional mode it is that response only if the transaction was committed.
pub(super) async fn settle<E>(
    engine: &Engine,
    call: &Arc<Call>,
    key: HeldKey,
    outcome: Outcome<E>,
    leader: Option<&Leader>,
) -> Result<UnaryResponse, E> {
    let disposition = disposition::of(engine, call, &outcome);
    let has_followers = leader.is_some_and(Leader::has_followers);
    let recorded = if has_followers { for_followers(engine, call, &disposition) } else { None };
    let response = match key {
        HeldKey::Reservation(lease) => {
            record::record(engine, call, disposition, lease).await;
            outcome.response
        }
        HeldKey::Transaction(transaction) => {
            let error = outcome.response.as_ref().ok().and_then(UnaryResponse::error);
            match end(call, transaction, disposition, error).await {
                Ended::AsAnswered => outcome.response,
                Ended::Refused(rejection) => return call.reject(rejection),
                Ended::Superseded => return replay::look_again(engine, call).await,
            }
        }
    };
    if let (Some(leader), Some(recorded)) = (leader, recorded) {
        leader.publish(&recorded);
    }
    let status = call.first_status().header_value();
    response.map(|response| if response.is_success() { response.with_status(status) } else { response })
}

/// The response for the calls that waited for this one; `None` if its outcome is not recorded.
fn for_followers(engine: &Engine, call: &Call, disposition: &Disposition) -> Option<Recorded> {
    let Disposition::Complete(completion) = disposition else { return None };
    // They ask the store, and have their own responses rebuilt.
    if engine.replay_hooks.rebuilds(call.procedure.path()) && matches!(completion.response, StoredResponse::NotStored) {
        return None;
    }
    let resource = completion.resource.as_ref().map(|resource| resource.id.clone());
    Some(Recorded::new(&engine.metadata_filter, call, &completion.response, resource, call.first_status()))
}

/// The end of a transaction.
enum Ended {
    /// Committed or rolled back, as the handler's response says.
    AsAnswered,
    /// Rolled back, or unknown.
    Refused(Rejection),
    /// Rolled back, because another call is recorded.
    Superseded,
}

/// Commits a transaction, or rolls it back.
async fn end(
    call: &Call,
    transaction: Box<dyn StoreTransaction>,
    disposition: Disposition,
    error: Option<&Status>,
) -> Ended {
    // First: whatever the handler makes of a conflict, the call may succeed if it is tried again.
    if transaction.is_in_conflict(error) {
        transaction.roll_back().await;
        return Ended::Refused(Rejection::Conflict);
    }
    let Disposition::Complete(completion) = disposition else {
        transaction.roll_back().await;
        return Ended::AsAnswered;
    };
    if !transaction.was_used() && !matches!(completion.response, StoredResponse::Error(_)) {
        call.procedure.telemetry().transaction_unused();
    }
    match transaction.commit(Some(completion)).await {
        Ok(CommitOutcome::Committed) => Ended::AsAnswered,
        Ok(CommitOutcome::Superseded) => Ended::Superseded,
        Err(error) => Ended::Refused(not_committed(&call.procedure, &error)),
    }
}
