//! The disposition of a key when its call has ended.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    engine::{
        answer::{Answer, Ending, Wanted},
        call::ProtectedCall,
        execute::Outcome,
        seal,
        shared::state::Engine,
    },
    policy::Mode,
    status::Resource,
    store::{Completion, StoredMessage, StoredResponse},
};

/// The disposition of a key when its call has ended. (The word is AMQP's: a delivery is settled with a disposition.)
#[derive(Debug)]
pub(crate) enum Disposition {
    /// Ends the lease without an outcome: whether the call took effect is unknown. (In AMQP and Service Bus, *abandon* gives a
    /// message back, which is [`Release`](Self::Release) here.)
    Abandon,
    /// Records the outcome: the call succeeded, or failed with a final error.
    Complete(Completion),
    /// Frees the key although the call succeeded: its handler wants no record.
    Forget,
    /// Frees the key: the call failed, and may be tried again.
    Release,
}

impl Disposition {
    /// Seals the outcome, if the call has keys.
    pub(in crate::engine) fn sealed(self, call: &ProtectedCall) -> Self {
        match self {
            Self::Complete(completion) => Self::Complete(seal::sealed(call, completion)),
            other => other,
        }
    }

    /// The name of its step in logs and metrics.
    pub(in crate::engine) fn step(&self) -> &'static str {
        match self {
            Self::Abandon => "abandon",
            Self::Complete(_) => "complete",
            Self::Forget | Self::Release => "release",
        }
    }

    /// The name of the key's state after it, for the span.
    pub(in crate::engine) fn past(&self) -> &'static str {
        match self {
            Self::Abandon => "abandoned",
            Self::Complete(_) => "completed",
            Self::Forget | Self::Release => "released",
        }
    }

    /// Whether the next call with the key runs.
    pub(in crate::engine) fn frees_key(&self) -> bool {
        matches!(self, Self::Forget | Self::Release)
    }

    /// The lifetime of the record that it makes; `None` if it makes none.
    pub(in crate::engine) fn retention(&self) -> Option<Duration> {
        match self {
            Self::Complete(completion) => Some(completion.retention),
            Self::Abandon | Self::Forget | Self::Release => None,
        }
    }

    /// The size of the response that it holds, in bytes.
    pub(in crate::engine) fn size(&self) -> usize {
        match self {
            Self::Complete(completion) => completion.response.size(),
            Self::Abandon | Self::Forget | Self::Release => 0,
        }
    }

    /// Forgets the response message, so that the record says only that the call succeeded. Returns whether there was one.
    pub(in crate::engine) fn forget_message(&mut self) -> bool {
        match self {
            Self::Complete(Completion {
                response: response @ (StoredResponse::Message(_) | StoredResponse::Sealed(_)),
                ..
            }) => {
                *response = StoredResponse::NotStored;
                true
            }
            _ => false,
        }
    }
}

/// Decides the disposition of the key of a call with this outcome.
pub(in crate::engine) fn of<A: Answer>(engine: &Engine, call: &ProtectedCall, outcome: &Outcome<A>) -> Disposition {
    let say = &outcome.say;
    let is_rebuilt = engine.replay_hooks.rebuilds(call.procedure.path());
    // The savepoint, to which the handler's writes are rolled back, is set before it begins.
    let can_be_final = call.procedure.policies().mode == Mode::Reserved || call.can_be_final;
    let failure = if say.effect_committed { Disposition::Abandon } else { Disposition::Release };
    let wanted = Wanted { is_rebuilt, is_final: say.final_error };
    let kept = |completion: Completion| {
        let retention = say.keep_for.map_or(completion.retention, |kept| kept.min(completion.retention));
        Disposition::Complete(Completion { retention, ..completion })
    };
    match outcome.answer.ending(&engine.responses, call, wanted) {
        Ending::Success { .. } if say.do_not_record => Disposition::Forget,
        Ending::Success { message, metadata } => kept(completion(engine, call, message, metadata)),
        Ending::FinalError(_) if !can_be_final => {
            call.procedure.telemetry().final_error_without_savepoint();
            failure
        }
        Ending::FinalError(error) => {
            kept(Completion { response: StoredResponse::Error(error), resource: None, retention: call.retention() })
        }
        Ending::Failure => failure,
    }
}

/// Builds the record of a response from its message (`None` if that could not be read) and the metadata to store.
pub(in crate::engine) fn completion(
    engine: &Engine,
    call: &ProtectedCall,
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
        Some(message) if message.len() + metadata.as_ref().map_or(0, Bytes::len) <= engine.responses.max_bytes => {
            StoredResponse::Message(StoredMessage { message, metadata: joined(metadata, call.metadata.as_ref()) })
        }
        _ => StoredResponse::NotStored,
    };
    Completion { response, resource, retention: call.retention() }
}

/// Joins two encoded messages: one after the other, they are the encoding of both merged.
fn joined(one: Option<Bytes>, other: Option<&Bytes>) -> Option<Bytes> {
    match (one, other) {
        (Some(one), Some(other)) => Some([one.as_ref(), other].concat().into()),
        (one, other) => one.or_else(|| other.cloned()),
    }
}
