//! Gets the keys of a call, seals its outcome, and opens the record of another.

use std::sync::Arc;

use protobuf_canonical::RequestHashes;

use crate::{
    engine::{call::ProtectedCall, shared::state::Engine},
    grpc::{envelope_of_error, error_without_content},
    rejection::Rejection,
    seal::KeyError,
    store::{Completion, StoredResponse},
};

/// Returns the call with the keys that its record is made with: before its claim, so that it does not fail at its end for want of one. Refuses
/// it if they are away: without a claim, and whatever its policy for a store that is away.
pub(crate) async fn with_keys(engine: &Engine, call: &Arc<ProtectedCall>) -> Result<Arc<ProtectedCall>, Rejection> {
    let keys = match &engine.sealer {
        Some(sealer) => sealer.keys(call.subject()).await.map_err(|error| away(call, &error))?,
        None => None,
    };
    Ok(match keys {
        Some(keys) => Arc::new(ProtectedCall { keys: Some(Arc::new(keys)), ..(**call).clone() }),
        None => Arc::clone(call),
    })
}

/// Returns the further hashes that a record of the same request may have.
pub(in crate::engine) async fn other_hashes(
    engine: &Engine,
    call: &ProtectedCall,
) -> Result<Vec<RequestHashes>, Rejection> {
    let Some(sealer) = &engine.sealer else { return Ok(Vec::new()) };
    let others = sealer.other_hashes(call.subject(), call.keys.as_deref(), &call.request_hashes).await;
    others.map_err(|error| away(call, &error))
}

/// Seals the outcome of a call, if it has keys.
pub(in crate::engine) fn sealed(call: &ProtectedCall, completion: Completion) -> Completion {
    match &call.keys {
        Some(keys) => Completion { response: keys.seal(call.subject(), completion.response), ..completion },
        None => completion,
    }
}

/// A recorded response, as far as it can be read.
pub(in crate::engine) struct Opened {
    pub(in crate::engine) response: StoredResponse,
    /// Whether it is recorded so that only the holder of a key reads it. It is not to stay in memory.
    pub(in crate::engine) was_sealed: bool,
}

/// Opens a recorded response for this call. One that can never be read is a response that is not stored, or an error with its code.
pub(in crate::engine) async fn open(
    engine: &Engine,
    call: &ProtectedCall,
    response: StoredResponse,
) -> Result<Opened, Rejection> {
    let was_sealed = match &response {
        StoredResponse::Sealed(_) => true,
        StoredResponse::Error(error) => envelope_of_error(error).is_some(),
        StoredResponse::Message(_) | StoredResponse::NotStored => false,
    };
    let response = if was_sealed { Box::pin(opened(engine, call, response)).await? } else { response };
    Ok(Opened { response, was_sealed })
}

async fn opened(engine: &Engine, call: &ProtectedCall, response: StoredResponse) -> Result<StoredResponse, Rejection> {
    let opened = match &engine.sealer {
        Some(sealer) => sealer.open(call.subject(), &response).await.map_err(|error| away(call, &error))?,
        None => Err("the layer has no keys".to_owned()),
    };
    Ok(opened.unwrap_or_else(|why| {
        call.procedure.telemetry().unreadable(&why);
        match response {
            StoredResponse::Error(error) => {
                StoredResponse::Error(error_without_content(&error, "the content of this error can no longer be read"))
            }
            _ => StoredResponse::NotStored,
        }
    }))
}

/// Logs that keys cannot be asked for. Returns the rejection of the call.
fn away(call: &ProtectedCall, error: &KeyError) -> Rejection {
    call.procedure.telemetry().keys_away(error);
    Rejection::StoreUnavailable
}
