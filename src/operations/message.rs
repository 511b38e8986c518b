//! The answer as a message.

use super::question::KnownOutcome;
use crate::{
    proto::v1::{Operation, Resource, State, Work},
    status::IdempotencyStatus,
    store::KeyState,
};

/// Makes the answer to a request for this key.
pub(super) fn operation(key: String, known: &KnownOutcome) -> Operation {
    let KnownOutcome { record, work } = known;
    let resource =
        record.resource.as_ref().map(|it| Resource { r#type: it.resource_type.clone(), id: it.id.to_string() });
    Operation {
        key,
        state: state(record.state).into(),
        procedure: record.procedure.clone().unwrap_or_default(),
        create_time: record.created.map(Into::into),
        complete_time: record.completed.map(Into::into),
        expire_time: record.expires.map(Into::into),
        work: work.map_or(Work::Unspecified, self::work).into(),
        resource,
    }
}

fn state(state: KeyState) -> State {
    match state {
        KeyState::Absent => State::Absent,
        KeyState::Running => State::Running,
        KeyState::Completed => State::Completed,
        KeyState::Failed => State::Failed,
        KeyState::Unknown => State::Unknown,
        KeyState::Expired => State::Expired,
    }
}

fn work(status: IdempotencyStatus) -> Work {
    match status {
        IdempotencyStatus::Processing => Work::Processing,
        IdempotencyStatus::Completed => Work::Completed,
        IdempotencyStatus::Failed => Work::Failed,
    }
}
