//! Looks up what has become of a call: [`LookUp`], [`KeyRecord`], [`KeyState`].

use std::time::SystemTime;

use super::{CallSession, StatusError};
use crate::{
    caller::OwnerId,
    key::KeyId,
    status::{OutboxStatus, Resource},
};

/// A question about a key, which changes nothing.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct LookUp {
    /// The owner.
    pub owner: OwnerId,
    /// The owner's key.
    pub key: KeyId,
    /// The session for the application's policies and functions that look up the status.
    pub session: CallSession,
    /// Whether to look up the status of the work behind a completed call.
    pub with_status: bool,
}

/// The state of a key, and everything that a store has recorded of its call.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct KeyRecord {
    /// The state of the call with the key.
    pub state: KeyState,
    /// The path of its procedure; `None` if that is not known: there is no record, or the call runs in a transaction.
    pub procedure: Option<String>,
    /// When the key was first claimed.
    pub created: Option<SystemTime>,
    /// When the outcome was recorded.
    pub completed: Option<SystemTime>,
    /// Until when the record lives.
    pub expires: Option<SystemTime>,
    /// The resource that the completed call created.
    pub resource: Option<Resource>,
    /// The newest status of the work behind that resource: `Ok(None)` if it has none, or was not looked up.
    pub status: Result<Option<OutboxStatus>, StatusError>,
}

impl KeyRecord {
    /// Makes the record of a key of which nothing is known but its state.
    pub fn new(state: KeyState) -> Self {
        Self { state, procedure: None, created: None, completed: None, expires: None, resource: None, status: Ok(None) }
    }
}

/// The state of a call, as a store knows it.
///
/// | the key's record | state |
/// |---|---|
/// | none, and no transaction holds the key | `Absent` |
/// | reserved, and the lease has not ended | `Running` |
/// | any without an outcome, or none, while a transaction holds the key | `Running` |
/// | has a response, or the note that it was too large | `Completed` |
/// | has an error | `Failed` |
/// | reserved, and the lease has ended, or abandoned | `Unknown` |
/// | expired, and no transaction holds the key | `Expired`; `Absent` once it is swept |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the states of a key: a caller handles each")]
pub enum KeyState {
    /// There is no record.
    Absent,
    /// A call holds the key.
    Running,
    /// The call succeeded.
    Completed,
    /// The call ended with an error that is recorded.
    Failed,
    /// The call ended without an outcome.
    Unknown,
    /// The record has expired.
    Expired,
}

impl KeyState {
    /// Returns the name of the state: `absent`, `running`, `completed`, `failed`, `unknown` or `expired`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
        }
    }
}
