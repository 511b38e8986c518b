//! Answers a call that does not run its handler.

use std::panic::AssertUnwindSafe;

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Either},
};
use tokio::time::timeout;
use tonic::Status;

use crate::{
    caller::Caller,
    engine::{
        answer::{Answer, Failure},
        call::ProtectedCall,
        replays::recorded::Recorded,
        seal::{self, Opened},
        shared::{single_flight::Leader, state::Engine},
        time::{clock_reading::ClockReading, expiry::Expiry},
    },
    policy::Procedure,
    rejection::Rejection,
    status::{IdempotencyStatus, OutboxStatus, Resource, ResourceId},
    store::{ClaimOutcome, Replay, STATUS_TIMEOUT, StatusError, StoredMessage, StoredResponse},
    telemetry::Chain,
};

/// Answers a call with the record of its key.
pub(in crate::engine) async fn answer<A: Answer>(
    engine: &Engine,
    call: &ProtectedCall,
    outcome: ClaimOutcome,
    asked: ClockReading,
    leader: Option<&Leader>,
) -> A {
    match outcome {
        ClaimOutcome::InFlight { lease_left } => A::reject(call, Rejection::InProgress { lease_left }),
        ClaimOutcome::Mismatch(mismatch) => A::reject(call, Rejection::KeyReused(mismatch)),
        ClaimOutcome::OutcomeUnknown => {
            call.procedure.telemetry().outcome_unknown();
            A::reject(call, Rejection::OutcomeUnknown)
        }
        ClaimOutcome::Replay(replay) => {
            if let Err(status) = authorize(engine, call, &replay).await {
                return withheld(&replay.response, status);
            }
            let Replay { response, resource, status, expires_in } = replay;
            let Opened { response, was_sealed } = match seal::open(engine, call, response).await {
                Ok(opened) => opened,
                Err(rejection) => return A::reject(call, rejection),
            };
            let rebuilt = match rebuild(engine, call, &response, resource.as_ref()).await {
                Ok(rebuilt) => rebuilt,
                Err(status) => return withheld(&response, status),
            };
            let status = work_status(engine, &call.procedure, call.caller.as_ref(), resource.as_ref(), &status).await;
            let is_kept = is_final(&response, status) && !was_sealed;
            let expiry = Some(Expiry::of_record(asked, expires_in));
            let recorded = Recorded { response: rebuilt.unwrap_or(response), status, expiry, resource };
            let (answer, is_whole) = recorded.replay(&engine.responses, &engine.spans, call);
            if is_whole && is_kept {
                engine.replay_cache.keep(call, &recorded);
            } else {
                engine.replay_cache.forget(call);
            }
            if let Some(leader) = leader {
                leader.publish(&recorded);
            }
            answer
        }
        // The key is free, and this call's handler has run already.
        ClaimOutcome::Acquired | ClaimOutcome::TakenOver => A::reject(call, Rejection::Conflict),
    }
}

/// Answers a call with a record that is known already: at once, unless the application has to be asked.
pub(in crate::engine) fn give<'a, A: Answer>(
    engine: &'a Engine,
    call: &'a ProtectedCall,
    recorded: Recorded,
) -> Either<A, BoxFuture<'a, A>> {
    let Some(asked) = engine.replay_hooks.authorize(call, recorded.resource.as_ref()) else {
        return Either::Left(recorded.replay(&engine.responses, &engine.spans, call).0);
    };
    Either::Right(Box::pin(async move {
        match asked.await {
            Ok(()) => recorded.replay(&engine.responses, &engine.spans, call).0,
            Err(status) => withheld(&recorded.response, status),
        }
    }))
}

fn withheld<A: Answer>(recorded: &StoredResponse, status: Status) -> A {
    A::failed(Failure::Withheld { status, is_success: !matches!(recorded, StoredResponse::Error(_)) })
}

/// Asks the application whether the call may be answered.
async fn authorize(engine: &Engine, call: &ProtectedCall, replay: &Replay) -> Result<(), Status> {
    match engine.replay_hooks.authorize(call, replay.resource.as_ref()) {
        Some(asked) => asked.await,
        None => Ok(()),
    }
}

/// Makes the response that the record does not hold; `None` if it does, or if the procedure's replays are copies.
async fn rebuild(
    engine: &Engine,
    call: &ProtectedCall,
    response: &StoredResponse,
    resource: Option<&ResourceId>,
) -> Result<Option<StoredResponse>, Status> {
    let asked = match response {
        StoredResponse::NotStored => engine.replay_hooks.rebuild(call, resource),
        _ => None,
    };
    let Some(asked) = asked else { return Ok(None) };
    Ok(Some(StoredResponse::Message(StoredMessage { message: asked.await?, metadata: None })))
}

/// The status of the work behind the resource that a call of this procedure created. `of_store` is the store's answer.
pub(crate) async fn work_status(
    engine: &Engine,
    procedure: &Procedure,
    caller: Option<&Caller>,
    resource: Option<&ResourceId>,
    of_store: &Result<Option<OutboxStatus>, StatusError>,
) -> IdempotencyStatus {
    let Some(creates) = procedure.tracks() else {
        return IdempotencyStatus::Completed;
    };
    let status = match (&engine.status_resolver, resource, caller) {
        (Some(resolver), Some(id), Some(caller)) => {
            let resource = Resource { resource_type: creates.resource_type.clone(), id: id.clone() };
            let asked = async { resolver.status(caller, &resource).await };
            // Boxed, so that it takes no memory while a handler runs.
            match Box::pin(timeout(STATUS_TIMEOUT, AssertUnwindSafe(asked).catch_unwind())).await {
                Ok(Ok(status)) => status.map_err(|error| Chain(&*error).to_string()),
                Ok(Err(_panic)) => Err("the status resolver panicked".to_owned()),
                Err(_) => Err("the status resolver took too long".to_owned()),
            }
        }
        (None, ..) => of_store.as_ref().copied().map_err(ToString::to_string),
        (Some(_), ..) => Ok(None),
    };
    let problem = match status {
        Ok(Some(status)) => return status.into(),
        Ok(None) => "the created resource has no status".to_owned(),
        Err(error) => error,
    };
    procedure.telemetry().status_unknown(&problem);
    IdempotencyStatus::Processing
}

/// Returns whether a replay stays the same until its record expires.
fn is_final(response: &StoredResponse, status: IdempotencyStatus) -> bool {
    match response {
        StoredResponse::Error(_) => true,
        StoredResponse::Message(_) => status != IdempotencyStatus::Processing,
        StoredResponse::NotStored | StoredResponse::Sealed(_) => false,
    }
}
