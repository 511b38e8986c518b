//! The disposition of a key when its call has ended.

use std::time::Duration;

use bytes::Bytes;
use tonic::Status;

use crate::{
    engine::{call::Call, execute::Outcome, shared::state::Engine},
    grpc::{Encoded, error_with_traceparent, with_traceparent},
    status::Resource,
    store::{Completion, StoredMessage, StoredResponse},
};

/// The size up to which a compressed response is always decompressed, in bytes, to find the id of the resource in a response that
/// is too large to store: the largest message that gRPC clients accept by default.
const MIN_READ: usize = 4 << 20;

/// The disposition of a key when its call has ended. (The word is AMQP's: a delivery is settled with a disposition.)
#[derive(Debug)]
pub(crate) enum Disposition {
    /// Ends the lease without an outcome: whether the call took effect is unknown. (In AMQP and Service Bus, *abandon* gives a
    /// message back, which is [`Release`](Self::Release) here.)
    Abandon,
    /// Records the outcome: the call succeeded, or failed with a final error.
    Complete(Completion),
    /// Frees the key: the call failed, and may be tried again.
    Release,
}

impl Disposition {
    /// The name of its step in logs and metrics.
    pub(in crate::engine) fn step(&self) -> &'static str {
        match self {
            Self::Abandon => "abandon",
            Self::Complete(_) => "complete",
            Self::Release => "release",
        }
    }

    /// The name of the key's state after it, for the span.
    pub(in crate::engine) fn past(&self) -> &'static str {
        match self {
            Self::Abandon => "abandoned",
            Self::Complete(_) => "completed",
            Self::Release => "released",
        }
    }

    /// The lifetime of the record that it makes; `None` if it makes none.
    pub(in crate::engine) fn retention(&self) -> Option<Duration> {
        match self {
            Self::Complete(completion) => Some(completion.retention),
            Self::Abandon | Self::Release => None,
        }
    }

    /// The size of the response that it holds, in bytes.
    pub(in crate::engine) fn size(&self) -> usize {
        match self {
            Self::Complete(Completion { response: StoredResponse::Error(error), .. }) => error.len(),
            Self::Complete(Completion { response: StoredResponse::Message(stored), .. }) => {
                stored.message.len() + stored.metadata.as_ref().map_or(0, Bytes::len)
            }
            _ => 0,
        }
    }

    /// Forgets the response message, so that the record says only that the call succeeded. Returns whether there was one.
    pub(in crate::engine) fn forget_message(&mut self) -> bool {
        match self {
            Self::Complete(Completion { response: response @ StoredResponse::Message(_), .. }) => {
                *response = StoredResponse::NotStored;
                true
            }
            _ => false,
        }
    }
}

/// Decides the disposition of the key of a call with this outcome.
pub(in crate::engine) fn of<E>(engine: &Engine, call: &Call, outcome: &Outcome<E>) -> Disposition {
    match &outcome.response {
        Ok(response) if response.is_success() => {
            let metadata = response.to_stored_metadata(&engine.metadata_filter);
            // A response that is rebuilt later may be of any size: it is read for the id of the resource, and not stored.
            let is_rebuilt = engine.replay_hooks.rebuilds(call.procedure.path());
            let limit = if is_rebuilt { usize::MAX } else { engine.max_response_bytes.max(MIN_READ) };
            let message = response.message(limit).ok();
            Disposition::Complete(completion(engine, call, message, metadata))
        }
        Ok(response) if call.procedure.policies().final_errors.contains(response.code()) => {
            let redact = |status: &Status| call.procedure.redacted_error(status);
            let Encoded { error, is_cut } =
                response.to_stored_error(&engine.metadata_filter, engine.max_response_bytes, redact);
            if is_cut {
                call.procedure.telemetry().error_cut(engine.max_response_bytes);
            }
            Disposition::Complete(Completion {
                response: StoredResponse::Error(error_with_traceparent(error, call.traceparent.as_deref())),
                resource: None,
                retention: call.retention(),
            })
        }
        _ if outcome.effect_committed => Disposition::Abandon,
        _ => Disposition::Release,
    }
}

/// Builds the record of a response from its message (`None` if that could not be read) and the metadata to store.
pub(in crate::engine) fn completion(
    engine: &Engine,
    call: &Call,
    message: Option<Bytes>,
    metadata: Option<Bytes>,
) -> Completion {
    let procedure = &call.procedure;
    let id = message.as_deref().and_then(|message| {
        procedure.resource_id(message).unwrap_or_else(|error| {
            procedure.telemetry().no_resource_id(&error);
            None
        })
    });
    let resource =
        procedure.creates().zip(id).map(|(creates, id)| Resource { resource_type: creates.resource_type.clone(), id });
    let stored = message.filter(|_| !engine.replay_hooks.rebuilds(procedure.path()));
    let response = match stored.and_then(|message| procedure.redacted(message).ok()) {
        Some(message) if message.len() + metadata.as_ref().map_or(0, Bytes::len) <= engine.max_response_bytes => {
            let metadata = with_traceparent(metadata, call.traceparent.as_deref());
            StoredResponse::Message(StoredMessage { message, metadata })
        }
        _ => StoredResponse::NotStored,
    };
    Completion { response, resource, retention: call.retention() }
}
