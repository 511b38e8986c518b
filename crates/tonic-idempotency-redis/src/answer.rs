//! Reads the answers of the scripts.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redis::Value;
use tonic_idempotency::{
    rejection::Mismatch,
    status::{Resource, ResourceId},
    store::{
        AbandonOutcome, ClaimOutcome, CompleteOutcome, ExtendOutcome, KeyRecord, KeyState, ReleaseOutcome, Replay,
        StoreError, StoreErrorKind, StoredMessage, StoredResponse,
    },
};

use crate::error::Failure;

pub(crate) fn abandoned(answer: Value) -> Result<AbandonOutcome, StoreError> {
    read(answer, |parts| match parts.word()?.as_str() {
        "abandoned" => Ok(AbandonOutcome::Abandoned),
        "not_held" => Ok(AbandonOutcome::NotHeld),
        _ => Err(NotUnderstood),
    })
}

pub(crate) fn claimed(answer: Value) -> Result<ClaimOutcome, StoreError> {
    read(answer, |parts| match parts.word()?.as_str() {
        "acquired" => Ok(ClaimOutcome::Acquired),
        "in_flight" => Ok(ClaimOutcome::InFlight { lease_left: parts.micros()? }),
        "mismatch" => match parts.word()?.as_str() {
            "procedure" => Ok(ClaimOutcome::Mismatch(Mismatch::Procedure)),
            "request" => Ok(ClaimOutcome::Mismatch(Mismatch::Request)),
            _ => Err(NotUnderstood),
        },
        "replay" => replay(parts).map(ClaimOutcome::Replay),
        "taken_over" => Ok(ClaimOutcome::TakenOver),
        "unknown" => Ok(ClaimOutcome::OutcomeUnknown),
        _ => Err(NotUnderstood),
    })
}

/// Returns the server's clock from the answer to a claim, if the answer contains it.
pub(crate) fn clock(answer: &Value) -> Option<Duration> {
    let Value::Array(parts) = answer else { return None };
    match parts.as_slice() {
        [_, Value::Int(micros)] if holds_key(answer) || is_late(answer) => {
            Some(Duration::from_micros((*micros).try_into().ok()?))
        }
        _ => None,
    }
}

/// Returns whether a claim came too late.
pub(crate) fn is_late(answer: &Value) -> bool {
    word(answer) == Some(b"late")
}

/// Returns whether a script that could not write has found no answer.
pub(crate) fn is_nothing(answer: &Value) -> bool {
    matches!(word(answer), Some(b"absent" | b"late"))
}

/// Returns whether a claim has written.
pub(crate) fn holds_key(answer: &Value) -> bool {
    matches!(word(answer), Some(b"acquired" | b"taken_over"))
}

/// Returns the first word of an answer.
fn word(answer: &Value) -> Option<&[u8]> {
    let Value::Array(parts) = answer else { return None };
    let Some(Value::BulkString(word)) = parts.first() else { return None };
    Some(word)
}

pub(crate) fn completed(answer: Value) -> Result<CompleteOutcome, StoreError> {
    read(answer, |parts| match parts.word()?.as_str() {
        "already_completed" => Ok(CompleteOutcome::AlreadyCompleted),
        "completed" => Ok(CompleteOutcome::Completed),
        "fenced" => Ok(CompleteOutcome::Fenced),
        _ => Err(NotUnderstood),
    })
}

pub(crate) fn extended(answer: Value) -> Result<ExtendOutcome, StoreError> {
    read(answer, |parts| match parts.word()?.as_str() {
        "extended" => Ok(ExtendOutcome::Extended),
        "not_held" => Ok(ExtendOutcome::NotHeld),
        _ => Err(NotUnderstood),
    })
}

pub(crate) fn looked_up(answer: Value) -> Result<KeyRecord, StoreError> {
    read(answer, |parts| {
        let state = match parts.word()?.as_str() {
            "absent" => return Ok(KeyRecord::new(KeyState::Absent)),
            "error" => KeyState::Failed,
            "message" | "not_stored" => KeyState::Completed,
            "running" => KeyState::Running,
            "unknown" => KeyState::Unknown,
            _ => return Err(NotUnderstood),
        };
        let procedure = Some(parts.word()?);
        let created = Some(after_epoch(Duration::from_micros(parts.digits()?))?);
        let completed = match parts.text()? {
            Some(digits) => Some(after_epoch(Duration::from_micros(digits.parse()?))?),
            None => None,
        };
        let expires = Some(after_epoch(Duration::from_millis(parts.number()?))?);
        let resource = match (parts.text()?, parts.text()?) {
            (Some(resource_type), Some(id)) if state == KeyState::Completed => {
                Some(Resource { resource_type, id: ResourceId::from_text(&id)? })
            }
            _ => None,
        };
        Ok(KeyRecord { procedure, created, completed, expires, resource, ..KeyRecord::new(state) })
    })
}

pub(crate) fn released(answer: Value) -> Result<ReleaseOutcome, StoreError> {
    read(answer, |parts| match parts.word()?.as_str() {
        "not_held" => Ok(ReleaseOutcome::NotHeld),
        "released" => Ok(ReleaseOutcome::Released),
        _ => Err(NotUnderstood),
    })
}

/// Returns the names under which a record keeps a response, and the kind of the response. [`claimed`] reads them.
pub(crate) fn kept(response: &StoredResponse) -> Option<(&'static str, Vec<(&'static str, &Bytes)>)> {
    match response {
        StoredResponse::Error(error) => Some(("error", vec![("body", error)])),
        StoredResponse::Message(StoredMessage { message, metadata }) => {
            let metadata = metadata.iter().map(|metadata| ("metadata", metadata));
            Some(("message", [("body", message)].into_iter().chain(metadata).collect()))
        }
        StoredResponse::NotStored => Some(("not_stored", Vec::new())),
        // What does not know it takes it for a response that is not stored.
        StoredResponse::Sealed(envelope) => Some(("not_stored", vec![("body", envelope)])),
        _ => None,
    }
}

fn replay(parts: &mut Parts) -> Result<Replay, NotUnderstood> {
    let kind = parts.word()?;
    let (body, metadata) = (parts.bytes()?, parts.bytes()?);
    let (_resource_type, id) = (parts.text()?, parts.text()?);
    let response = match (kind.as_str(), body) {
        ("error", Some(error)) => StoredResponse::Error(error),
        ("message", Some(message)) => StoredResponse::Message(StoredMessage { message, metadata }),
        ("not_stored", None) => StoredResponse::NotStored,
        ("not_stored", Some(envelope)) => StoredResponse::Sealed(envelope),
        _ => return Err(NotUnderstood),
    };
    let resource = id.as_deref().map(ResourceId::from_text).transpose()?;
    Ok(Replay { response, resource, status: Ok(None), expires_in: parts.micros()? })
}

fn after_epoch(time: Duration) -> Result<SystemTime, NotUnderstood> {
    SystemTime::UNIX_EPOCH.checked_add(time).ok_or(NotUnderstood)
}

/// An answer, or a record, that no script makes.
pub(crate) struct NotUnderstood;

impl<E: std::error::Error> From<E> for NotUnderstood {
    fn from(_: E) -> Self {
        Self
    }
}

/// Reads an answer. An answer that is not understood is an error of the kind [`StoreErrorKind::Corrupt`].
fn read<T>(answer: Value, parse: impl FnOnce(&mut Parts) -> Result<T, NotUnderstood>) -> Result<T, StoreError> {
    let parsed = match answer {
        Value::Array(parts) => parse(&mut Parts(parts.into_iter())),
        _ => Err(NotUnderstood),
    };
    parsed.map_err(|NotUnderstood| Failure::Corrupt("a record").into_error(StoreErrorKind::Corrupt, false))
}

/// The parts of an answer, in their order.
struct Parts(std::vec::IntoIter<Value>);

impl Parts {
    fn next(&mut self) -> Result<Value, NotUnderstood> {
        self.0.next().ok_or(NotUnderstood)
    }

    /// Returns the next part, which may be nothing.
    fn bytes(&mut self) -> Result<Option<Bytes>, NotUnderstood> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(Some(bytes.into())),
            Value::Nil => Ok(None),
            _ => Err(NotUnderstood),
        }
    }

    fn text(&mut self) -> Result<Option<String>, NotUnderstood> {
        Ok(self.bytes()?.map(|bytes| String::from_utf8(bytes.into())).transpose()?)
    }

    fn word(&mut self) -> Result<String, NotUnderstood> {
        self.text()?.ok_or(NotUnderstood)
    }

    /// Returns a number that the record has as digits.
    fn digits(&mut self) -> Result<u64, NotUnderstood> {
        Ok(self.word()?.parse()?)
    }

    fn number(&mut self) -> Result<u64, NotUnderstood> {
        match self.next()? {
            Value::Int(number) => Ok(number.try_into()?),
            _ => Err(NotUnderstood),
        }
    }

    /// Returns a number of microseconds; zero if it is negative, for a time that has just passed.
    fn micros(&mut self) -> Result<Duration, NotUnderstood> {
        match self.next()? {
            Value::Int(micros) => Ok(Duration::from_micros(micros.try_into().unwrap_or(0))),
            _ => Err(NotUnderstood),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(parts: &[&str]) -> Value {
        Value::Array(parts.iter().map(|part| Value::BulkString(part.as_bytes().to_vec())).collect())
    }

    #[test]
    fn an_answer_that_no_script_gives_is_corrupt() {
        for value in
            [Value::Nil, Value::Okay, answer(&[]), answer(&["won"]), answer(&["mismatch"]), answer(&["replay"])]
        {
            let error = claimed(value.clone()).expect_err("an error");
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{value:?}");
        }
        assert!(completed(answer(&["acquired"])).is_err());
        assert!(looked_up(answer(&["completed"])).is_err());
        assert!(released(answer(&["extended"])).is_err());
    }

    /// A message is not without a body, and an error neither.
    #[test]
    fn a_replay_without_its_response_is_corrupt() {
        for kind in ["message", "error"] {
            let mut parts = vec![Value::BulkString(b"replay".to_vec()), Value::BulkString(kind.into())];
            parts.extend([const { Value::Nil }; 4]);
            parts.push(Value::Int(1));
            assert!(claimed(Value::Array(parts)).is_err(), "{kind}");
        }
    }
}
